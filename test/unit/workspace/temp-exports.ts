import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { createFiles } from "../../../node-agent/files/files.ts";
import type { ExportSettings } from "../../../node-agent/workspace/export-settings.ts";
import { startExports, type Exports } from "../../../node-agent/workspace/exports.ts";
import type { OpenWatch } from "../../../node-agent/workspace/kernel-watches.ts";
import { startManifests } from "../../../node-agent/workspace/manifests.ts";
import type { SharedWatch } from "../../../node-agent/workspace/shared-watch.ts";
import { FilesManifestRequestSchema } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { type Clock, systemClock } from "../../../shared/lifetime/clock.ts";
import { silentLog } from "../../../shared/log/log.ts";
import type { RootHooks } from "../../../shared/root/root-handle.ts";
import type { CallContext } from "../../../shared/rpc/service.ts";

/** Settings of an export `app` where all may be done; `changes` win. */
export function exportOf(dir: string, changes: Partial<ExportSettings> = {}): ExportSettings {
  return {
    name: "app",
    dir,
    read: ["**"],
    write: ["**"],
    deny: [],
    remove: true,
    move: true,
    mkdir: true,
    followSymlinks: false,
    allowHardLinks: false,
    maxFileBytes: undefined,
    ...changes,
  };
}

/** What a call gets beside its request. */
export function callContext(signal: AbortSignal = new AbortController().signal): CallContext {
  return { signal, callId: "call", remainingMs: 60_000, metadata: new Map(), peer: { address: "" } };
}

/** One export over a new folder, with the service over it; gone at the end. */
export interface TempExports extends AsyncDisposable {
  readonly exports: Exports;
  readonly files: ReturnType<typeof createFiles>;
  readonly dir: string;
  readonly outside: string;
  readonly homeDir: string;
  /** The manifest of a folder of it. */
  manifest(
    path?: string,
    more?: { readonly knownDigest?: string; readonly shallow?: boolean },
  ): ReturnType<ReturnType<typeof createFiles>["manifest"]>;
  /** The watch of the export. */
  watch(): Promise<SharedWatch>;
  /** As a new process has them: what was kept is on the disk. */
  restartManifests(meanwhile?: () => void): Promise<void>;
}

/** What `openTempExports` takes. */
export interface TempExportsOptions {
  readonly settings?: Partial<ExportSettings>;
  readonly hooks?: RootHooks;
  /** The kernel's watches; Node's own by default. */
  readonly openWatch?: OpenWatch;
  /** How often they are tried, in milliseconds. */
  readonly scanEveryMs?: number;
  /** When files were read; the machine's clock by default. */
  readonly clock?: Clock;
  readonly limits?: { readonly treeEntries: number; readonly treeDepth: number };
}

/** Exports a new folder, filled by `fill`, as `app`. */
export async function openTempExports(
  fill: (dir: string, outside: string) => void = () => undefined,
  options: TempExportsOptions = {},
): Promise<TempExports> {
  const base = mkdtempSync(join(tmpdir(), "fairlead-exports-"));
  const [dir, outside, homeDir] = ["app", "outside", "home"].map((name) => join(base, name)) as [
    string,
    string,
    string,
  ];
  for (const folder of [dir, outside, homeDir]) mkdirSync(folder);
  writeFileSync(join(outside, "secret"), "OUTSIDE");
  fill(dir, outside);
  const exports = await startExports([exportOf(dir, options.settings)], {
    homeDir,
    limits: options.limits ?? { treeEntries: 1_000_000, treeDepth: 64 },
    ...(options.hooks ? { hooks: options.hooks } : {}),
  });
  const { clock = systemClock, openWatch, scanEveryMs } = options;
  const kept = {
    dir: join(homeDir, "node", "manifest"),
    names: ["app"],
    clock,
    log: silentLog,
    ...(openWatch ? { openWatch } : {}),
    ...(scanEveryMs === undefined ? {} : { scanEveryMs }),
  };
  let manifests = await startManifests(kept);
  return {
    exports,
    get files() {
      return createFiles(exports, manifests);
    },
    watch: async () => manifests.watchOf(await exports.get("app")),
    manifest: (path = "", more = {}) =>
      createFiles(exports, manifests).manifest(
        create(FilesManifestRequestSchema, { workspace: "app", path, ...more }),
        callContext(),
      ),
    restartManifests: async (meanwhile) => {
      await manifests[Symbol.asyncDispose]();
      meanwhile?.();
      manifests = await startManifests(kept);
    },
    dir,
    outside,
    homeDir,
    [Symbol.asyncDispose]: async () => {
      await manifests[Symbol.asyncDispose]();
      await exports[Symbol.asyncDispose]();
      rmSync(base, { recursive: true, force: true });
    },
  };
}
