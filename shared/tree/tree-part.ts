import type { Fault } from "../fault/fault.ts";
import type { EntryProblem, FileTrailer, TreeEntry, TreeTrailer } from "../gen/fairlead/v1/files_pb.ts";

/**
 * One message of a tree, whichever way it goes. Rules that both ends hold: parents come before what is in them; the
 * inline contents of a message's entries stand in `content` one behind the other and fill it; a streamed entry is the
 * last of its message, and only chunks follow until its file trailer; a file trailer without a digest gives the file up;
 * the tree trailer stands alone and is the last message.
 */
export interface TreePart {
  readonly entries: TreeEntry[];
  /** Entries that could not be read; only where they travel with the tree. */
  readonly problems?: EntryProblem[];
  readonly fileTrailer?: FileTrailer | undefined;
  readonly treeTrailer?: TreeTrailer | undefined;
  readonly content: Uint8Array;
  /** The content is packed, and was so many bytes; 0, as by default, for content as it is. */
  readonly packedBytes?: number;
}

/** An entry that failed. */
export interface TreeProblem {
  /** Relative to the tree's root. */
  readonly path: string;
  readonly fault: Fault;
}

/** Content of one message of small files, in bytes. */
export const packBytes: number = 512 * 1024;

/** Largest file that travels inside a pack, in bytes. */
export const maxInlineBytes: number = 256 * 1024;

/** Entries of one message. */
export const maxPackEntries = 1000;

/** One chunk of a large file, in bytes. */
export const chunkBytes: number = 256 * 1024;

/** Problems that an answer names. */
export const maxNamedProblems = 10_000;
