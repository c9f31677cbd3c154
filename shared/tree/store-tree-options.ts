import type { Fault } from "../fault/fault.ts";
import type { TreeTrailer } from "../gen/fairlead/v1/files_pb.ts";
import type { WorkspacePath } from "../names/workspace-path.ts";
import type { CanonicalCheck, RootHandle } from "../root/root-handle.ts";
import type { TreeProblem } from "./tree-part.ts";

/** Where a tree goes and what is allowed there. */
export interface StoreTreeOptions {
  readonly root: RootHandle;
  /** The folder that the tree's root becomes; made when absent. */
  readonly path: WorkspacePath;
  /** For every file of the tree; with `absent_or_equal` one that stands there with the very content is as good as stored. */
  readonly precondition: "any" | "absent" | "absent_or_equal";
  /** The tree's own folder, where it is not the root: its permission bits where it is made, and its time. */
  readonly top?: { readonly mode: number; readonly mtimeNs: bigint };
  /** Judges an entry before anything is made for it; its fault makes the entry a problem. */
  readonly mayWrite?: (path: WorkspacePath, kind: "file" | "folder" | "link") => Fault | undefined;
  /** Judges canonical paths, as every write's. */
  readonly check?: CanonicalCheck;
  /** The first problem ends the tree. */
  readonly strict?: boolean;
  readonly maxFileBytes?: number;
  /** More entries are `LIMIT_REACHED`; 1,000,000 by default. */
  readonly maxEntries?: number;
  /** A deeper tree is `LIMIT_REACHED`; 64 by default. */
  readonly maxDepth?: number;
  /** The tree has no name yet that anybody looks for; the caller renames or removes it as a whole. */
  readonly isUnseen?: boolean;
  readonly signal?: AbortSignal;
  /** Hears of bytes of content as they arrive. */
  readonly onBytes?: (bytes: number) => void;
}

/** What was stored. */
export interface StoredTree {
  /** Counts and digest of what is on the disk now. */
  readonly stored: TreeTrailer;
  /** Entries that failed, on either side: the first 10,000. */
  readonly problems: readonly TreeProblem[];
  /** All entries that failed. */
  readonly failedCount: number;
  /** Of the stored files: those that stood there with this content already. */
  readonly unchangedCount: number;
}
