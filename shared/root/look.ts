import type { WorkspacePath } from "../names/workspace-path.ts";
import type { Entry, OperationOptions } from "./root-handle.ts";

/** What an operation acts on, as the kernel tells things apart: what stands at the path, or the deepest folder on the way. */
export interface FoundThing {
  readonly device: bigint;
  readonly inode: bigint;
  /** When it was made, in nanoseconds since 1970: an inode's number is soon given to another file. */
  readonly bornNs: bigint;
  /** Whether it stands at the path itself. */
  readonly isThere: boolean;
}

/** What `look` tells of a path. */
export interface Look {
  readonly canonicalPath: WorkspacePath;
  readonly found: FoundThing;
  /** Undefined when nothing stands there. */
  readonly entry: Entry | undefined;
}

/** What `look` takes. */
export interface LookOptions extends OperationOptions {
  /** Take a link at the end for the entry, as what changes a path does. */
  readonly keepsLink: boolean;
  /** As for `openFile`; only where the link at the end is taken for the entry. */
  readonly followFolders?: boolean;
}
