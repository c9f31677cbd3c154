import type { Digest } from "../../shared/content/digest.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { CallContext } from "../../shared/rpc/service.ts";

/** One file as one user knows it. */
export interface ReadKey {
  readonly nodeId: string;
  readonly workspace: string;
  readonly path: WorkspacePath;
  /** Who asks. */
  readonly context: CallContext;
}

/** What users last read, so that a write without a condition is refused when the file changed since. */
export interface ReadMemory {
  /** The digest that the user last read or wrote. */
  find(key: ReadKey): Promise<Digest | undefined>;
  /** Keeps it. */
  remember(key: ReadKey, digest: Digest): Promise<void>;
}
