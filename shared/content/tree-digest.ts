import { createDigester, type Digest } from "./digest.ts";

/** What a tree's digest covers of one entry. */
export interface TreeDigestEntry {
  readonly kind: "file" | "folder" | "link";
  /** Relative to the tree's root. */
  readonly path: string;
  /** Permission bits. */
  readonly mode: number;
  /** A file's digest, a link's target, nothing for a folder. */
  readonly content: string;
}

/** Digests a whole tree, entry by entry, in the order in which they travel. */
export interface TreeDigester {
  /** Takes the next entry. */
  add(entry: TreeDigestEntry): void;
  /** The digest of what came so far; more may follow. */
  digest(): Digest;
}

/**
 * A digester that has seen nothing yet. NUL stands between the four parts and after the last: no path, link or digest
 * holds one, so two different trees never give the same bytes.
 */
export function createTreeDigester(): TreeDigester {
  const digester = createDigester();
  return {
    add: ({ kind, path, mode, content }) =>
      digester.update(Buffer.from(`${kind}\0${path}\0${mode.toString(8)}\0${content}\0`)),
    digest: () => digester.digest(),
  };
}
