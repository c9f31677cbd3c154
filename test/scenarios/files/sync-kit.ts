import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { digestOf } from "../../../shared/content/digest.ts";
import type { CliResult } from "../../support/run-cli.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import type { FilesPair } from "./pair.ts";

/** What `files sync --json` prints. */
export interface SyncResult {
  readonly filesSent: number;
  readonly bytesSent: number;
  readonly filesReused: number;
  readonly bytesReused: number;
  readonly changes: readonly { readonly action: string; readonly path: string }[];
  readonly kept: readonly string[];
  readonly failed: readonly {
    readonly path: string;
    readonly code: string;
    readonly details: Record<string, unknown>;
  }[];
}

/** A folder on the node, one here, and the command between them. */
export interface SyncKit extends AsyncDisposable {
  readonly here: TempFolder;
  /** Paths of the two folders. */
  readonly remote: string;
  readonly local: string;
  /** Runs the command. */
  run(...more: readonly string[]): Promise<CliResult>;
  /** The same with `--json`; fails unless it exits 0. */
  sync(...more: readonly string[]): Promise<SyncResult>;
}

/** A folder `name` in the workspace, and a place for one here. The caller disposes it. */
export async function makeSyncKit(pair: FilesPair, name: string): Promise<SyncKit> {
  const here = await makeTempFolder();
  await pair.workspace.write({ [`${name}/`]: "" });
  const local = here.join("tree");
  const run = (...more: readonly string[]): Promise<CliResult> =>
    pair.files(["sync", `devbox:/app/${name}`, local, ...more]);
  return {
    here,
    remote: join(pair.workspace.path, name),
    local,
    run,
    sync: async (...more) => {
      const result = await run("--json", ...more);
      if (result.exitCode !== 0) throw new Error(`sync exited ${result.exitCode}: ${result.stdout}`);
      return result.json as SyncResult;
    },
    [Symbol.asyncDispose]: async () => here[Symbol.asyncDispose](),
  };
}

/** Digests of the files below a folder by path, and its folders. */
export async function treeOf(folder: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    found[path.slice(folder.length + 1)] = entry.isFile() ? digestOf(await readFile(path)) : "folder";
  }
  return found;
}
