/** One entry of a tree that is synced. */
export interface SyncEntry {
  /** Relative to the tree's folder. */
  readonly path: string;
  readonly kind: "file" | "folder" | "link";
  /** Bytes of a file. */
  readonly sizeBytes: number;
  /** Permission bits. */
  readonly mode: number;
  /** Modification time in nanoseconds since 1970. */
  readonly modifiedNs: bigint;
  /** A file's digest, a link's target, nothing for a folder. */
  readonly content: string;
}

/** The entries of a tree by their paths, in order of the paths' UTF-8 bytes. */
export type SyncTree = ReadonlyMap<string, SyncEntry>;

/** What of an entry is compared between two trees and two runs. */
export function contentOf({ kind, content }: Pick<SyncEntry, "kind" | "content">): string {
  return `${kind}:${content}`;
}
