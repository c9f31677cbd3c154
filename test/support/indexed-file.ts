import { defaultChunkSize, nameChunking } from "../../gateway/memory/chunks.ts";
import type { IndexedFile } from "../../gateway/memory/memory-index.ts";
import { digestOf } from "../../shared/content/digest.ts";

/** A file as an index holds it, with what a test does not say. */
export function toIndexedFile(said: Partial<IndexedFile> = {}): IndexedFile {
  return {
    digest: digestOf(""),
    sizeBytes: 1,
    modifiedMs: 0,
    chunking: nameChunking(defaultChunkSize),
    isEvergreen: false,
    fault: undefined,
    ...said,
  };
}
