import { digestOf, type Digest } from "./digest.ts";

/** What a folder's digest covers of one entry. */
export interface FolderDigestEntry {
  /** What it is; `problem` for what could not be read. */
  readonly kind: "file" | "folder" | "link" | "problem";
  /** One name, without a slash. */
  readonly name: string;
  /** Permission bits; 0 of a link and of a problem. */
  readonly mode: number;
  /** A file's or folder's digest, a link's target, the code of a problem. */
  readonly content: string;
}

/**
 * The digest of a folder's content, of all that is below it: equal digests, equal trees. Times are not in it. `entries`
 * stand in order of the names' UTF-8 bytes. NUL ends each part: none of them holds one.
 */
export function digestFolder(entries: Iterable<FolderDigestEntry>): Digest {
  let text = "";
  for (const { kind, name, mode, content } of entries) {
    text += `${kind}\0${name}\0${mode.toString(8)}\0${content}\0`;
  }
  return digestOf(text);
}
