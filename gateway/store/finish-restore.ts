import { existsSync } from "node:fs";
import { rename } from "node:fs/promises";
import path from "node:path";
import { removePrivate, syncFolder } from "../../shared/identity/private-files.ts";

/** A folder with this ending beside the gateway's is a restore that was cut between its two renames. */
export const restoredEnding = ".restored";

/**
 * Ends a restore that was cut off once its state was whole: called before anything else looks into the gateway's folder.
 * Where the old state was not moved away yet, it stands.
 */
export async function finishRestore(dir: string): Promise<void> {
  const ready = `${dir}${restoredEnding}`;
  if (!existsSync(ready)) return;
  if (existsSync(dir)) return await removePrivate(ready);
  await rename(ready, dir);
  await syncFolder(path.dirname(dir));
}
