import { constants, existsSync } from "node:fs";
import { copyFile, mkdir, open, rename } from "node:fs/promises";
import path from "node:path";
import { faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import {
  makePrivateFolder,
  publishFolder,
  removePrivate,
  writePrivateFile,
} from "../../shared/identity/private-files.ts";
import { lockHome } from "../../shared/process/home-lock.ts";
import { openBackup, toStoreFile } from "./backup.ts";
import { finishRestore, restoredEnding } from "./finish-restore.ts";

/** What `restoreBackup` takes. */
export interface RestoreOptions {
  readonly file: string;
  /** The gateway's folder. */
  readonly dir: string;
  /** The time, in milliseconds since 1970: names the folder that the present state is moved to. */
  readonly now: number;
}

/** What was restored. */
export interface Restored {
  /** When the backup was made, in milliseconds since 1970. */
  readonly madeAt: number;
  /** The version that made it. */
  readonly version: string;
  /** Where the state from before is now; undefined when there was none. */
  readonly before: string | undefined;
}

const stageEnding = ".restoring";

/**
 * Puts the state of a backup in place of the present one, which is kept beside it. The new state is written as a whole
 * first, so that a home has the old or the new one whenever this ends. `CONFLICT` while a gateway runs in the folder;
 * the faults of `openBackup`; those of the disk. In all of them the present state is as it was.
 */
export async function restoreBackup(options: RestoreOptions): Promise<Restored> {
  const { file, dir, now } = options;
  using backup = await openBackup(file);
  await finishRestore(dir);
  await makePrivateFolder(path.dirname(dir));
  const hadState = existsSync(dir);
  using _lock = hadState ? lockHome(dir, { program: "fairlead gateway restore" }) : undefined;
  const stage = `${dir}${stageEnding}`;
  try {
    await removePrivate(stage);
    await makePrivateFolder(stage);
    await copyFile(file, path.join(stage, "state.db"), constants.COPYFILE_EXCL);
    toStoreFile(path.join(stage, "state.db"));
    await syncFile(path.join(stage, "state.db"));
    for (const { path: name, bytes } of backup.files()) await placeFile(stage, name, bytes);
  } catch (error) {
    await removePrivate(stage);
    throw faultFromErrno(error, "the restored state");
  }
  const before = hadState ? `${dir}.before-${now}` : undefined;
  await publishFolder(stage, `${dir}${restoredEnding}`);
  if (before !== undefined) await rename(dir, before);
  await finishRestore(dir);
  return { madeAt: backup.madeAt, version: backup.version, before };
}

async function placeFile(stage: string, name: string, bytes: Uint8Array): Promise<void> {
  const place = path.join(stage, name);
  await mkdir(path.dirname(place), { recursive: true, mode: 0o700 });
  await writePrivateFile(place, bytes);
}

async function syncFile(file: string): Promise<void> {
  await using handle = await open(file, "r+");
  await handle.sync();
}
