import { chown, lstat, mkdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { makeTempFolder, type TempFolder, type TempFolderOptions } from "./temp-folder.ts";

/** Files of a workspace by path; a path that ends in `/` is an empty folder. */
export type TreeOfFiles = Readonly<Record<string, string | Uint8Array>>;

/** A folder to export, with its files. Disposing removes it. */
export interface TempWorkspace extends TempFolder {
  /** Writes files, and the folders above them. */
  write(files: TreeOfFiles): Promise<void>;
  /** A file as text. */
  text(path: string): Promise<string>;
  /** A file's bytes. */
  bytes(path: string): Promise<Buffer>;
  /** Whether something has this name, a broken link too. */
  has(path: string): Promise<boolean>;
  /** Makes a link at a path that points to a target, as written. */
  link(path: string, target: string): Promise<void>;
  /** Renames inside the workspace. */
  move(from: string, to: string): Promise<void>;
  /** Removes a file or a whole folder. */
  remove(path: string): Promise<void>;
}

/** Makes a workspace with some files. With `ownerUid` everything in it belongs to that user. */
export async function makeTempWorkspace(
  files: TreeOfFiles = {},
  options: TempFolderOptions = {},
): Promise<TempWorkspace> {
  const folder = await makeTempFolder(options);
  const at = (path: string): string => join(folder.path, path);
  const give = async (path: string): Promise<void> => {
    const { ownerUid } = options;
    if (ownerUid === undefined) return;
    for (let part = path; part !== "." && part !== "/"; part = dirname(part))
      await chown(at(part), ownerUid, ownerUid);
  };
  const workspace: TempWorkspace = {
    ...folder,
    write: async (tree) => {
      for (const [path, content] of Object.entries(tree)) {
        const isFolder = path.endsWith("/");
        await mkdir(isFolder ? at(path) : dirname(at(path)), { recursive: true });
        if (!isFolder) await writeFile(at(path), content);
        await give(isFolder ? path.slice(0, -1) : path);
      }
    },
    text: (path) => readFile(at(path), "utf8"),
    bytes: (path) => readFile(at(path)),
    has: (path) =>
      lstat(at(path)).then(
        () => true,
        () => false,
      ),
    link: async (path, target) => {
      await mkdir(dirname(at(path)), { recursive: true });
      await symlink(target, at(path));
    },
    move: (from, to) => rename(at(from), at(to)),
    remove: (path) => rm(at(path), { recursive: true }),
  };
  await workspace.write(files);
  return workspace;
}
