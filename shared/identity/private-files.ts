import { constants } from "node:fs";
import { chmod, mkdir, open, rename, rm } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { errnoOf, faultFromErrno } from "../fault/fault-from-errno.ts";
import { Fault } from "../fault/fault.ts";

/** Mode of a file that only its owner may read. */
export const privateFileMode = 0o600;
/** Mode of a folder that only its owner may enter. */
const privateFolderMode = 0o700;

const maxPrivateFileBytes = 1_048_576;

/** Makes a folder, and those above it that are missing, for the owner alone, whatever the umask. */
export async function makePrivateFolder(path: string): Promise<void> {
  try {
    await mkdir(path, { recursive: true, mode: privateFolderMode });
    await chmod(path, privateFolderMode);
    await syncFolder(dirname(path));
  } catch (error) {
    throw faultFromErrno(error, basename(path));
  }
}

/**
 * Writes a file for the owner alone as a whole: beside its place, synced, renamed. Whoever reads it meanwhile, and
 * whoever looks after a crash, finds the old content or the new.
 */
export async function writePrivateFile(path: string, content: string | Uint8Array): Promise<void> {
  const stage = `${path}.new`;
  try {
    await rm(stage, { force: true });
    await using file = await open(stage, "wx", privateFileMode);
    await file.chmod(privateFileMode);
    await file.writeFile(content);
    await file.sync();
    await rename(stage, path);
    await syncFolder(dirname(path));
  } catch (error) {
    throw faultFromErrno(error, basename(path));
  }
}

/**
 * Gives a finished folder its name in one step, and syncs it: after a crash either all of its files are there under
 * that name, or none. `ALREADY_EXISTS` or `NOT_EMPTY` when the name is taken.
 */
export async function publishFolder(stage: string, path: string): Promise<void> {
  try {
    await syncFolder(stage);
    await rename(stage, path);
    await syncFolder(dirname(path));
  } catch (error) {
    throw faultFromErrno(error, basename(path));
  }
}

/** The text of a small file, or undefined when there is none. A link in its place is not followed. */
export async function readPrivateFile(path: string): Promise<PrivateFile | undefined> {
  try {
    await using file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    const { mode, size } = await file.stat();
    if (size > maxPrivateFileBytes) {
      throw new Fault(
        "TOO_LARGE",
        `${basename(path)} has ${size} bytes and may have ${maxPrivateFileBytes}`,
        {
          details: { limit: maxPrivateFileBytes, actual: size },
        },
      );
    }
    return { text: await file.readFile("utf8"), mode: mode & 0o777 };
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw faultFromErrno(error, basename(path));
  }
}

/** A small file as it was read. */
export interface PrivateFile {
  readonly text: string;
  /** Its permission bits. */
  readonly mode: number;
}

/** Removes a file or a folder with what is in it; nothing there is well. */
export async function removePrivate(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true });
    await syncFolder(dirname(path));
  } catch (error) {
    throw faultFromErrno(error, basename(path));
  }
}

/** Makes what was created, renamed or removed in a folder survive a power cut. */
export async function syncFolder(path: string): Promise<void> {
  // Windows has no handle of a folder that could be synced; its renames are journalled.
  if (process.platform === "win32") return;
  await using folder = await open(path, "r");
  await folder.sync();
}
