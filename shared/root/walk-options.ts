import type { Twinship } from "../names/folded-name.ts";
import type { WorkspacePath } from "../names/workspace-path.ts";
import type { Entry, HideRule, OperationOptions, Problem } from "./root-handle.ts";

/** What `walk` takes. */
export interface WalkOptions extends OperationOptions {
  readonly hide?: HideRule;
  /** Left out too, but told of as the twin of what is not. */
  readonly leave?: HideRule;
  /** Each entry comes with what other names of its folder are the same on some volumes. */
  readonly tellsTwins?: boolean;
  /** More entries are `LIMIT_REACHED`; 1,000,000 by default. */
  readonly maxEntries?: number;
  /** A deeper tree is `LIMIT_REACHED`; 64 by default. */
  readonly maxDepth?: number;
  /** Begin behind this path (relative to the workspace), which an earlier walk ended with. */
  readonly after?: WorkspacePath;
  /** As `list` has it: what cannot be read (a device, a link that leads out, one name of several) is an entry as well. */
  readonly asListed?: boolean;
  /** Read the content of files up to this size in the same turn; 0 (none) by default, at most 512 KiB. */
  readonly contentUpToBytes?: number;
  /** What is gone since its folder was read is a problem, `NOT_FOUND`; by default it is as if it had not been there. */
  readonly tellsGone?: boolean;
  readonly signal?: AbortSignal;
}

/** One thing that a walk met. */
export type WalkItem =
  | {
      readonly kind: "entry";
      readonly entry: Entry;
      /** The file's bytes when they were asked for; the memory is used again once the next batch is taken. */
      readonly content?: Uint8Array;
      /** How it is one with another name of its folder, where that was asked for and is so. */
      readonly twinship?: Twinship;
    }
  | { readonly kind: "problem"; readonly problem: Problem };
