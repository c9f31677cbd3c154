import path from "node:path";
import { z } from "zod";
import { Fault } from "../../shared/fault/fault.ts";
import { createGlob } from "../../shared/names/glob.ts";
import { toChunkSize, toTokens } from "../memory/chunks.ts";
import {
  defaultBatchTexts,
  embeddingDefaults,
  embeddingKinds,
  type EmbeddingKind,
  type EmbeddingSource,
} from "../memory/embedding/embedding-settings.ts";
import { defaultMemorySettings, type MemorySettings } from "../memory/memory-settings.ts";
import { defaultHalfLifeDays } from "../memory/ranking/rank-hits.ts";

/** `embeddings` as it is written: where vectors come from. */
export interface EmbeddingsConfig {
  /** `none` by default: searches are by keyword. */
  readonly provider?: EmbeddingKind | undefined;
  readonly baseUrl?: string | undefined;
  readonly model?: string | undefined;
  readonly dimensions?: number | undefined;
  /** A file that holds the key; without one `FAIRLEAD_EMBEDDINGS_KEY` is taken. */
  readonly apiKeyFile?: string | undefined;
  readonly maxCalls?: number | undefined;
  readonly callsPerMinute?: number | undefined;
  readonly batchTexts?: number | undefined;
  readonly timeoutMs?: number | undefined;
}

/** `memory` as it is written: how memory files are indexed and searched. */
export interface MemoryConfig {
  readonly chunkTokens?: number | undefined;
  readonly overlapTokens?: number | undefined;
  readonly cacheEntries?: number | undefined;
  readonly searchMs?: number | undefined;
  readonly vectorMemoryBytes?: number | undefined;
  readonly timeDecay?: boolean | undefined;
  readonly halfLifeDays?: number | undefined;
  readonly evergreen?: readonly string[] | undefined;
}

const whole = (min: number, max: number): z.ZodOptional<z.ZodNumber> =>
  z.number().int().min(min).max(max).optional();

/** The shape of `embeddings`. */
export const embeddingsSchema: z.ZodType<EmbeddingsConfig> = z.strictObject({
  provider: z.enum(embeddingKinds).optional(),
  baseUrl: z.string().min(1).max(2_048).optional(),
  model: z.string().min(1).max(200).optional(),
  dimensions: whole(1, 16_384),
  apiKeyFile: z.string().min(1).optional(),
  maxCalls: whole(1, 64),
  callsPerMinute: whole(1, 100_000),
  batchTexts: whole(1, 2_048),
  timeoutMs: whole(100, 3_600_000),
});

/** The shape of `memory`. */
export const memorySchema: z.ZodType<MemoryConfig> = z.strictObject({
  chunkTokens: whole(32, 8_192),
  overlapTokens: whole(0, 4_096),
  cacheEntries: whole(0, 10_000_000),
  searchMs: whole(50, 600_000),
  vectorMemoryBytes: whole(0, 68_719_476_736),
  timeDecay: z.boolean().optional(),
  halfLifeDays: whole(1, 36_500),
  evergreen: z.array(z.string().min(1).max(1_024)).max(1_000).optional(),
});

/** Where vectors come from; undefined without a provider. `INVALID_ARGUMENT` names what is missing or wrong. */
export function resolveEmbeddings(
  config: EmbeddingsConfig = {},
  folder: string,
): EmbeddingSource | undefined {
  const { provider: kind = "none" } = config;
  if (kind === "none") return undefined;
  const defaults = embeddingDefaults[kind];
  const model = config.model ?? defaults.model;
  const baseUrl = config.baseUrl ?? defaults.baseUrl;
  if (baseUrl === undefined) throw missing(kind, "baseUrl", "the address before /embeddings");
  if (model === undefined) throw missing(kind, "model", "the name of an embedding model that it has");
  return {
    kind,
    model,
    baseUrl: parseBaseUrl(baseUrl),
    dimensions: config.dimensions,
    maxCalls: config.maxCalls ?? defaults.maxCalls,
    callsPerMinute: config.callsPerMinute,
    batchTexts: config.batchTexts ?? defaultBatchTexts,
    timeoutMs: config.timeoutMs ?? defaults.timeoutMs,
    apiKeyFile: config.apiKeyFile === undefined ? undefined : path.resolve(folder, config.apiKeyFile),
  };
}

/** How memory files are indexed and searched; `INVALID_ARGUMENT` names what does not fit. */
export function resolveMemory(config: MemoryConfig = {}): MemorySettings {
  const defaults = defaultMemorySettings;
  const { chunkTokens = 400, overlapTokens = Math.min(80, chunkTokens / 2) } = config;
  if (overlapTokens > chunkTokens / 2) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `memory.overlapTokens is ${overlapTokens}; at most half of memory.chunkTokens, ${chunkTokens}, is possible`,
      { details: { field: "memory.overlapTokens", actual: overlapTokens, limit: chunkTokens / 2 } },
    );
  }
  for (const pattern of config.evergreen ?? []) createGlob(pattern, { field: "memory.evergreen" });
  const halfLifeDays = config.timeDecay === true ? (config.halfLifeDays ?? defaultHalfLifeDays) : 0;
  return {
    chunkSize: toChunkSize(chunkTokens, overlapTokens),
    cacheEntries: config.cacheEntries ?? defaults.cacheEntries,
    searchMs: config.searchMs ?? defaults.searchMs,
    vectors: {
      ...defaults.vectors,
      maxMemoryBytes: config.vectorMemoryBytes ?? defaults.vectors.maxMemoryBytes,
    },
    ranking: { ...defaults.ranking, halfLifeDays },
    evergreen: config.evergreen ?? defaults.evergreen,
  };
}

/** `embeddings` as it is in force, under the names of the configuration. */
export function showEmbeddings(source: EmbeddingSource | undefined): EmbeddingsConfig {
  if (!source) return { provider: "none" };
  const { kind, ...rest } = source;
  return { provider: kind, ...rest };
}

/** `memory` as it is in force, under the names of the configuration. */
export function showMemory(settings: MemorySettings): MemoryConfig {
  const { chunkSize, cacheEntries, searchMs, vectors, ranking, evergreen } = settings;
  const [chunkTokens, overlapTokens] = toTokens(chunkSize);
  return {
    chunkTokens,
    overlapTokens,
    cacheEntries,
    searchMs,
    vectorMemoryBytes: vectors.maxMemoryBytes,
    timeDecay: ranking.halfLifeDays > 0,
    ...(ranking.halfLifeDays > 0 ? { halfLifeDays: ranking.halfLifeDays } : {}),
    evergreen,
  };
}

function missing(kind: string, name: string, what: string): Fault {
  return new Fault("INVALID_ARGUMENT", `embeddings.${name} is missing: ${kind} has no default for it`, {
    hint: `set it to ${what}`,
    details: { field: `embeddings.${name}` },
  });
}

function parseBaseUrl(text: string): string {
  const url = URL.parse(text);
  const isHttp = url?.protocol === "http:" || url?.protocol === "https:";
  // A key in the address would stand in settings, states and logs.
  if (url && isHttp && url.username === "" && url.password === "" && url.search === "" && url.hash === "") {
    return url.href.replace(/\/+$/, "");
  }
  throw new Fault("INVALID_ARGUMENT", "embeddings.baseUrl is no http or https address without a key in it", {
    hint: "write it as https://HOST/v1, and give the key by FAIRLEAD_EMBEDDINGS_KEY or embeddings.apiKeyFile",
    details: { field: "embeddings.baseUrl" },
  });
}
