import type { Entry, TreeEntry } from "../gen/fairlead/v1/files_pb.ts";
import type { IncomingFile } from "./incoming-file.ts";

/** A large file while its chunks come. */
export interface Streamed {
  readonly entry: Entry;
  readonly pending: Pending;
  /** Undefined once the file has failed: what still comes of it is dropped. */
  file: IncomingFile | undefined;
  receivedBytes: bigint;
}

/** An entry in the order of the tree, until everything before it has been settled. */
export interface Pending {
  entry: Entry;
  state: "open" | "stored" | "failed" | "given-up";
}

/** A small file that has come, with what its message holds of it. */
export interface SmallFile {
  readonly pending: Pending;
  readonly item: TreeEntry;
  readonly content: Uint8Array;
}
