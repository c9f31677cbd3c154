import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../../../node-agent/files/files.ts";
import type { ExportSettings } from "../../../node-agent/workspace/export-settings.ts";
import { startExports, type Exports } from "../../../node-agent/workspace/exports.ts";
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
}

/** What `openTempExports` takes. */
export interface TempExportsOptions {
  readonly settings?: Partial<ExportSettings>;
  readonly hooks?: RootHooks;
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
  return {
    exports,
    files: createFiles(exports),
    dir,
    outside,
    homeDir,
    [Symbol.asyncDispose]: async () => {
      await exports[Symbol.asyncDispose]();
      rmSync(base, { recursive: true, force: true });
    },
  };
}
