import path from "node:path";
import { type ConfigEdit, editConfig } from "../../shared/config/edit-config.ts";
import { readConfig } from "../../shared/config/read-config.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { makePrivateFolder, writePrivateFile } from "../../shared/identity/private-files.ts";
import { lockFile } from "../../shared/process/home-lock.ts";
import { nodeConfigSchema, type WorkspaceConfig } from "./node-config.ts";
import type { ExecMode } from "./node-settings.ts";

/** What a join writes into the configuration. */
export interface JoinedExports {
  readonly workspaces: readonly WorkspaceConfig[];
  readonly exec?: ExecMode | undefined;
}

/** Adds exports, and how far commands go; a name in use is `ALREADY_EXISTS` and nothing is written. */
export async function addExports(file: string, exports: JoinedExports): Promise<void> {
  using _lock = await lockConfig(file);
  const names = new Set(await workspaceNames(file));
  const edits: ConfigEdit[] = [];
  for (const workspace of exports.workspaces) {
    if (names.has(workspace.name)) throw nameInUse(workspace.name);
    names.add(workspace.name);
    edits.push({ kind: "append", key: ["workspaces"], value: { ...workspace } });
  }
  if (exports.exec !== undefined) edits.push({ kind: "set", key: ["exec", "mode"], value: exports.exec });
  if (edits.length > 0) await applyEdits(file, edits);
}

/** Takes an export away; one that is not there is `NOT_FOUND`. */
export async function removeWorkspace(file: string, name: string): Promise<void> {
  using _lock = await lockConfig(file);
  const index = (await workspaceNames(file)).indexOf(name);
  if (index === -1) {
    throw new Fault("NOT_FOUND", `no workspace is exported as ${name}`, {
      hint: "fairlead node workspace ls",
      details: { workspace: name },
    });
  }
  await applyEdits(file, [{ kind: "remove", key: ["workspaces", index] }]);
}

/** The fault of a name that is taken. */
export function nameInUse(name: string): Fault {
  return new Fault("ALREADY_EXISTS", `a workspace is exported as ${name} already`, {
    hint: `choose another name, or take it away first: fairlead node workspace rm ${name}`,
    details: { workspace: name },
  });
}

async function workspaceNames(file: string): Promise<readonly string[]> {
  const { value } = await readConfig(file, nodeConfigSchema);
  return (value.workspaces ?? []).map(({ name }) => name);
}

/** Longest wait for another edit, in milliseconds. */
const lockWaitMs = 10_000;

/** From reading to writing one process has the file: what another one added is never written over. */
async function lockConfig(file: string): Promise<Disposable> {
  await makePrivateFolder(path.dirname(file));
  return lockFile(`${file}.lock`, { waitMs: lockWaitMs });
}

async function applyEdits(file: string, edits: readonly ConfigEdit[]): Promise<void> {
  const text = await editConfig({ file, schema: nodeConfigSchema }, edits);
  await writePrivateFile(file, text);
}
