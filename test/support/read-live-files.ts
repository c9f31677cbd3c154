import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** A file of a folder that programs were writing in while it was read. */
export interface LiveFile {
  /** As `readdir` names it below the folder that was asked for. */
  readonly path: string;
  readonly bytes: Buffer;
}

/**
 * The files below a folder, with their bytes, while programs write in it: a file that is gone before it is read, as a
 * staged one is when it takes its name, is left out. Fails with what the system says of anything else.
 */
export async function readLiveFiles(dir: string): Promise<readonly LiveFile[]> {
  const found = await readdir(dir, { recursive: true, withFileTypes: true });
  const files: LiveFile[] = [];
  for (const entry of found) {
    if (!entry.isFile()) continue;
    const path = join(entry.parentPath, entry.name);
    const bytes = await readFile(path).catch((error: unknown) => {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return;
      throw error;
    });
    if (bytes !== undefined) files.push({ path, bytes });
  }
  return files;
}
