import type { ChunkSize } from "./chunks.ts";
import type { CachedVector } from "./embedding/embedding-cache.ts";
import type { IndexedFile, IndexFound, IndexSearch } from "./memory-index.ts";
import type { MissingVector, VectorStoreOptions } from "./vector-store.ts";

/** How the thread of the indexes keeps them. Handed to it when it starts. */
export interface IndexThreadOptions {
  /** The file of the embedding cache; undefined: nothing is embedded. */
  readonly cache: { readonly path: string; readonly maxEntries: number } | undefined;
  /** What makes vectors; empty: nothing does. */
  readonly identity: string;
  readonly chunkSize: ChunkSize;
  readonly vectors: VectorStoreOptions;
}

/** A file that is to be put into an index; how its text is cut and whether it ages is found by the thread. */
export type PutFile = Omit<IndexedFile, "chunking" | "isEvergreen">;

interface Requests {
  readonly open: { readonly asks: object; readonly gives: OpenedIndex };
  readonly put: {
    readonly asks: { readonly file: string; readonly indexed: PutFile; readonly text: string };
    readonly gives: IndexCounts & { readonly indexed: IndexedFile };
  };
  readonly note: {
    readonly asks: { readonly file: string; readonly modifiedMs: number };
    readonly gives: undefined;
  };
  readonly remove: { readonly asks: { readonly file: string }; readonly gives: IndexCounts };
  readonly verify: { readonly asks: { readonly ms: number }; readonly gives: undefined };
  readonly search: { readonly asks: IndexSearch; readonly gives: IndexFound };
  /** Fills what the cache has, and gives what is left to embed. */
  readonly missing: {
    readonly asks: { readonly limit: number; readonly skip: readonly string[] };
    readonly gives: IndexCounts & { readonly passages: readonly MissingVector[] };
  };
  readonly vectors: {
    readonly asks: { readonly identity: string; readonly vectors: readonly CachedVector[] };
    readonly gives: IndexCounts;
  };
  readonly waiting: { readonly asks: object; readonly gives: number };
  /** Removes a file so that nothing of its text is left in the bytes of index and cache. */
  readonly forget: { readonly asks: { readonly file: string }; readonly gives: IndexCounts };
  readonly rebuild: { readonly asks: object; readonly gives: undefined };
  readonly close: { readonly asks: { readonly forget: boolean }; readonly gives: undefined };
}

/** Kinds of requests to the thread. */
export type IndexRequestKind = keyof Requests;

/** What the thread of the indexes is asked; `path` names the index file. */
export type IndexRequest<K extends IndexRequestKind = IndexRequestKind> = {
  readonly [Kind in K]: { readonly kind: Kind; readonly path: string } & Requests[Kind]["asks"];
}[K];

/** What it answers to a request of this kind. */
export type IndexResult<K extends IndexRequestKind> = Requests[K]["gives"];

/** What it answers. */
export interface IndexReply {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: { readonly message: string; readonly isDamage: boolean };
}

/** How much an index holds. */
export interface IndexCounts {
  readonly chunkCount: number;
  /** Passages that wait for their vector. */
  readonly missingVectors: number;
}

/** What is known of an index that was opened. */
export interface OpenedIndex extends IndexCounts {
  readonly rebuilt: string | undefined;
  readonly verifiedMs: number;
  readonly files: readonly (readonly [string, IndexedFile])[];
}
