import type { KeywordQuery } from "./keyword-query.ts";
import type { IndexedFile } from "./memory-index.ts";

/** What the thread of the indexes is asked; `path` names the index file. */
export type IndexRequest =
  | { readonly kind: "open"; readonly path: string }
  | {
      readonly kind: "put";
      readonly path: string;
      readonly file: string;
      readonly indexed: IndexedFile;
      readonly text: string;
    }
  | { readonly kind: "remove"; readonly path: string; readonly file: string }
  | { readonly kind: "verify"; readonly path: string; readonly ms: number }
  | { readonly kind: "search"; readonly path: string; readonly query: KeywordQuery; readonly limit: number }
  | { readonly kind: "rebuild"; readonly path: string }
  | { readonly kind: "close"; readonly path: string; readonly forget: boolean };

/** What it answers. */
export interface IndexReply {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: { readonly message: string; readonly isDamage: boolean };
}

/** What is known of an index that was opened. */
export interface OpenedIndex {
  readonly rebuilt: string | undefined;
  readonly chunkCount: number;
  readonly verifiedMs: number;
  readonly files: readonly (readonly [string, IndexedFile])[];
}
