import type { WorkspacePath } from "../names/workspace-path.ts";

/** A modification time for a folder, in nanoseconds since 1970. Kept to the microsecond. */
export interface FolderTime {
  readonly path: WorkspacePath;
  readonly mtimeNs: bigint;
}
