import { type ChunkSize, defaultChunkSize } from "./chunks.ts";
import { defaultCacheEntries } from "./embedding/embedding-cache.ts";
import { defaultRanking, type RankingSettings } from "./ranking/rank-hits.ts";
import { defaultVectorMemoryBytes, type VectorStoreOptions } from "./vector-store.ts";

/** How memory files are indexed and searched, with every value in place. */
export interface MemorySettings {
  readonly chunkSize: ChunkSize;
  /** Vectors that are kept beside the indexes. */
  readonly cacheEntries: number;
  /** How long a search waits for vectors, in milliseconds; then it answers by keyword. */
  readonly searchMs: number;
  readonly vectors: VectorStoreOptions;
  readonly ranking: RankingSettings;
  /** Files that do not age, by pattern of their paths. */
  readonly evergreen: readonly string[];
}

/** What is taken when the configuration says nothing. */
export const defaultMemorySettings: MemorySettings = {
  chunkSize: defaultChunkSize,
  cacheEntries: defaultCacheEntries,
  searchMs: 30_000,
  vectors: { maxMemoryBytes: defaultVectorMemoryBytes, native: true },
  ranking: defaultRanking,
  evergreen: ["MEMORY.md", "USER.md"],
};
