import { chmod, chown, mkdtemp, readdir, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";

/** What a temporary folder is like. */
export interface TempFolderOptions {
  /** Gives the folder to this user and opens it to lookers-on: for programs that do not run as root. */
  readonly ownerUid?: number;
  /**
   * Called at the end with the path of every entry, from the folder on; the folder's end fails, once it is removed,
   * when this answers no. For tests of what must not stay behind.
   */
  readonly mayStay?: (path: string) => boolean;
}

/** A folder that lives as long as the test: `await using folder = await makeTempFolder()`. */
export interface TempFolder extends AsyncDisposable {
  /** Absolute and canonical. */
  readonly path: string;
  /** An absolute path within. */
  join(...parts: readonly string[]): string;
  /** Every entry below, relative to the folder, sorted. */
  entries(): Promise<string[]>;
}

/** Makes an empty folder of its own; the caller disposes it, which removes it with everything in it. */
export async function makeTempFolder(options: TempFolderOptions = {}): Promise<TempFolder> {
  const path = await mkdtemp(join(await realpath(tmpdir()), "fairlead-test-"));
  if (options.ownerUid !== undefined) {
    await chown(path, options.ownerUid, options.ownerUid);
    await chmod(path, 0o755);
  }
  const entries = async (): Promise<string[]> => {
    const found = await readdir(path, { recursive: true, withFileTypes: true });
    return found.map((entry) => relative(path, join(entry.parentPath, entry.name))).toSorted();
  };
  return {
    path,
    join: (...parts) => join(path, ...parts),
    entries,
    async [Symbol.asyncDispose]() {
      const { mayStay } = options;
      const strays = mayStay ? (await entries()).filter((entry) => !mayStay(entry)) : [];
      await rm(path, { recursive: true, force: true, maxRetries: 3 });
      if (strays.length > 0) throw new Error(`left behind in a temporary folder: ${strays.join(", ")}`);
    },
  };
}
