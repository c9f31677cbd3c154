import { parentPort } from "node:worker_threads";
import { toChunks } from "./chunks.ts";
import { isDamage } from "./index-file.ts";
import type { IndexReply, IndexRequest } from "./index-messages.ts";
import { MemoryIndex } from "./memory-index.ts";

/**
 * The thread that holds every index file open: SQLite works at once and may take long, and nothing else of the gateway
 * waits for it here. Requests are answered one after the other, in order.
 */
const indexes = new Map<string, MemoryIndex>();

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
      index.put(request.file, request.indexed, toChunks(request.text));
      return index.chunkCount;
    case "remove":
      index.remove(request.file);
      return index.chunkCount;
    case "verify":
      return index.setVerified(request.ms);
    case "search":
      return index.search(request.query, request.limit);
    case "rebuild":
      return index.rebuild();
    case "close":
      indexes.delete(request.path);
      return request.forget ? index.destroy() : index[Symbol.dispose]();
  }
}

function open(path: string): unknown {
  indexes.get(path)?.[Symbol.dispose]();
  const index = new MemoryIndex(path);
  indexes.set(path, index);
  const { rebuilt, chunkCount, verifiedMs } = index;
  return { rebuilt, chunkCount, verifiedMs, files: [...index.files] };
}
