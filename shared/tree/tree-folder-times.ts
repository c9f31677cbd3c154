import { compareByUtf8 } from "../names/byte-order.ts";
import { appendPath, type WorkspacePath } from "../names/workspace-path.ts";
import type { FolderTime } from "../root/folder-time.ts";
import type { CanonicalCheck, RootHandle } from "../root/root-handle.ts";

/** The times of a tree's folders, which each gets once nothing more comes into it. */
export interface FolderTimes {
  /** A folder of the tree, relative to it, that stands; a time of 0 leaves it as it is. */
  add(path: string, mtimeNs: bigint): void;
  /** Sets those that a tree, in its order, has left behind with the entry `last`; all when it is over. */
  settle(last: string | undefined, check: CanonicalCheck | undefined): Promise<void>;
}

/** The times of a tree below `top` of `root`. */
export function startFolderTimes(root: RootHandle, top: WorkspacePath): FolderTimes {
  let waiting: { readonly relative: string; readonly time: FolderTime }[] = [];
  return {
    add: (relative, mtimeNs) => {
      if (mtimeNs === 0n) return;
      // Only what was stored is added: its path was parsed.
      const path = relative === "" ? top : appendPath(top, relative as WorkspacePath);
      waiting.push({ relative, time: { path, mtimeNs } });
    },
    settle: async (last, check) => {
      const isOver = (relative: string): boolean => last === undefined || isBehind(relative, last);
      const due = waiting.filter(({ relative }) => isOver(relative));
      waiting = waiting.filter(({ relative }) => !isOver(relative));
      if (due.length === 0) return;
      await root.setFolderTimes(
        due.map(({ time }) => time),
        check ? { check } : {},
      );
    },
  };
}

/** Whether all that lies in `folder` comes before `last`. */
function isBehind(folder: string, last: string): boolean {
  if (folder === "" || last.startsWith(`${folder}/`)) return false;
  return compareByUtf8(last, `${folder}/`) > 0;
}
