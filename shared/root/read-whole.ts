import { isFault } from "../fault/fault.ts";
import type { WorkspacePath } from "../names/workspace-path.ts";
import type { Entry, OperationOptions, RootHandle } from "./root-handle.ts";

/** A small file with all its bytes. */
export interface WholeFile {
  readonly entry: Entry;
  readonly content: Buffer;
}

/** What `readWhole` takes. */
export interface ReadWholeOptions extends OperationOptions {
  /** A larger file is `TOO_LARGE`. */
  readonly maxBytes: number;
}

const attempts = 5;

/**
 * All bytes of a file, all of one state: a file that changes while it is read is read again, and undefined when it does so
 * each time.
 */
export async function readWhole(
  root: RootHandle,
  path: WorkspacePath,
  options: ReadWholeOptions,
): Promise<WholeFile | undefined> {
  for (let attempt = 1; attempt <= attempts; attempt += 1) {
    try {
      const file = await readOnce(root, path, options);
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
  options: ReadWholeOptions,
): Promise<WholeFile | undefined> {
  await using file = await root.openFile(path, options);
  // One byte more than the file had shows whether it grew; the root refuses what is above the limit.
  const buffer = Buffer.allocUnsafe(Math.min(file.entry.sizeBytes, options.maxBytes) + 1);
  const sizeBytes = file.readNow(buffer, 0);
  if (sizeBytes > file.entry.sizeBytes || file.hasChanged()) return undefined;
  return { entry: file.entry, content: buffer.subarray(0, sizeBytes) };
}
