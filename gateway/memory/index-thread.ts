import { parentPort, workerData } from "node:worker_threads";
import { nameChunking, toChunks } from "./chunks.ts";
import { EmbeddingCache } from "./embedding/embedding-cache.ts";
import { isEvergreen } from "./evergreen.ts";
import { isDamage, removeIndexFile } from "./index-file.ts";
import type {
  IndexCounts,
  IndexReply,
  IndexRequest,
  IndexResult,
  IndexThreadOptions,
  OpenedIndex,
} from "./index-messages.ts";
import { MemoryIndex } from "./memory-index.ts";
import { VectorMemory } from "./vector-memory.ts";

/**
 * The thread that holds every index file open: SQLite works at once and may take long, and nothing else of the gateway
 * waits for it here. Requests are answered one after the other, in order.
 */
const indexes = new Map<string, MemoryIndex>();
const options = workerData as IndexThreadOptions;
const chunking = nameChunking(options.chunkSize);
const vectors = { ...options.vectors, memory: new VectorMemory(options.vectors.maxMemoryBytes) };
let cache = openCache();

parentPort?.on("message", ({ id, request }: { readonly id: number; readonly request: IndexRequest }) => {
  parentPort?.postMessage(answer(id, request));
});

function answer(id: number, request: IndexRequest): IndexReply {
  try {
    return { id, result: run(request) };
  } catch (error) {
    return { id, error: { message: String(error), isDamage: isDamage(error) } };
  }
}

function run(request: IndexRequest): unknown {
  if (request.kind === "open") return open(request.path);
  const index = indexes.get(request.path);
  if (!index) throw new Error("the index is not open");
  switch (request.kind) {
    case "put":
      return put(index, request);
    case "note":
      return index.note(request.file, request.modifiedMs);
    case "remove":
      index.remove(request.file);
      return countsOf(index);
    case "forget":
      cache?.forget(index.forget(request.file));
      return countsOf(index);
    case "verify":
      return index.setVerified(request.ms);
    case "search":
      return index.search(request);
    case "missing":
      return findMissing(index, request);
    case "vectors":
      index.putVectors(request.identity, request.vectors);
      tryCache((kept) => kept.put(request.identity, request.vectors));
      return countsOf(index);
    case "waiting":
      return index.countWaitingFiles();
    case "rebuild":
      index.rebuild();
      return index.useVectors(options.identity);
    case "close":
      indexes.delete(request.path);
      return request.forget ? index.destroy() : index[Symbol.dispose]();
  }
}

function open(path: string): OpenedIndex {
  indexes.get(path)?.[Symbol.dispose]();
  const index = new MemoryIndex(path, { vectors });
  index.useVectors(options.identity);
  indexes.set(path, index);
  const { rebuilt, verifiedMs } = index;
  return { rebuilt, verifiedMs, ...countsOf(index), files: [...index.files] };
}

function countsOf({ chunkCount, missingVectors }: MemoryIndex): IndexCounts {
  return { chunkCount, missingVectors };
}

function put(index: MemoryIndex, request: IndexRequest<"put">): IndexResult<"put"> {
  const { file, text } = request;
  const indexed = { ...request.indexed, chunking, isEvergreen: isEvergreen(text) };
  index.put(file, indexed, toChunks(text, options.chunkSize));
  return { ...countsOf(index), indexed };
}

function findMissing(index: MemoryIndex, request: IndexRequest<"missing">): IndexResult<"missing"> {
  const skip = new Set(request.skip);
  for (;;) {
    const passages = index.missing(request.limit, skip);
    const digests = passages.map(({ digest }) => digest);
    const kept = findKept(index, digests);
    if (kept.size === 0) return { ...countsOf(index), passages };
    index.putVectors(
      options.identity,
      Array.from(kept, ([digest, vector]) => ({ digest, vector })),
    );
    const left = passages.filter(({ digest }) => !kept.has(digest));
    if (left.length > 0) return { ...countsOf(index), passages: left };
  }
}

/** Vectors that the cache has, as far as they are as long as those of the index. */
function findKept(index: MemoryIndex, digests: readonly string[]): ReadonlyMap<string, Float32Array> {
  const kept = [...(tryCache((all) => all.find(options.identity, digests)) ?? [])];
  const length = index.vectorLength || kept[0]?.[1].length;
  return new Map(kept.filter(([, vector]) => vector.length === length));
}

/** The cache; undefined without a provider, or when it cannot be had: then everything is asked of the provider. */
function openCache(): EmbeddingCache | undefined {
  try {
    return options.cache && new EmbeddingCache(options.cache.path, options.cache.maxEntries);
  } catch {
    return undefined;
  }
}

/** What the cache gives; one that fails is begun again, and searches and indexes go on without it meanwhile. */
function tryCache<T>(work: (kept: EmbeddingCache) => T): T | undefined {
  try {
    return cache && work(cache);
  } catch (error) {
    cache?.[Symbol.dispose]();
    if (options.cache && isDamage(error)) removeIndexFile(options.cache.path);
    cache = openCache();
    return undefined;
  }
}
