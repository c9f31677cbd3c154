import { isFault } from "../fault/fault.ts";
import type { WorkspacePath } from "../names/workspace-path.ts";
import type { Entry, RootHandle } from "./root-handle.ts";

/** A small file with all its bytes. */
export interface WholeFile {
  readonly entry: Entry;
  readonly content: Buffer;
}

const attempts = 5;

/**
 * All bytes of a file of at most `maxBytes`, all of one state: a file that changes while it is read is read again, and
 * undefined when it does so each time. A larger one is `TOO_LARGE`.
 */
export async function readWhole(
  root: RootHandle,
  path: WorkspacePath,
  maxBytes: number,
): Promise<WholeFile | undefined> {
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    try {
      const file = await readOnce(root, path, maxBytes);
      if (file) return file;
    } catch (error) {
      if (!isFault(error, "PATH_CHANGED") || attempt === attempts) throw error;
    }
  }
  return undefined;
}

async function readOnce(
  root: RootHandle,
  path: WorkspacePath,
  maxBytes: number,
): Promise<WholeFile | undefined> {
  await using file = await root.openFile(path, { maxBytes });
  // One byte more than the file had shows whether it grew; the root refuses what is above the limit.
  const buffer = Buffer.allocUnsafe(Math.min(file.entry.sizeBytes, maxBytes) + 1);
  const sizeBytes = file.readNow(buffer, 0);
  if (sizeBytes > file.entry.sizeBytes || file.hasChanged()) return undefined;
  return { entry: file.entry, content: buffer.subarray(0, sizeBytes) };
}
