import type { Digest } from "../content/digest.ts";
import type { WorkspacePath } from "../names/workspace-path.ts";
import type { EntryKind, OperationOptions } from "./root-handle.ts";

/** What `remove` takes. */
export interface RemoveOptions extends OperationOptions {
  /** Also a folder that has entries. */
  readonly recursive?: boolean;
  /** The file must have this digest, else `CONFLICT`. */
  readonly ifMatch?: Digest;
  /** It must be of this kind, else `CONFLICT`. */
  readonly ifKind?: EntryKind;
  /** The link must have this text, else `CONFLICT`. */
  readonly ifLinkTarget?: string;
  /** Asked for each entry before it is removed; throws to stop. */
  readonly mayRemove?: (path: WorkspacePath, kind: EntryKind) => void;
  readonly signal?: AbortSignal;
}
