import type { Entry } from "./root-handle.ts";

/** A small file with its content. */
export interface SmallFile {
  readonly entry: Entry;
  readonly content: Buffer;
}
