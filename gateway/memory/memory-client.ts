import { isAbsolute, join, relative, resolve, sep } from "node:path";
import { isFaultCode } from "../../shared/fault/codes.ts";
import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import { raceSignal } from "../../shared/lifetime/clock.ts";

/** A JSON object. */
export type JsonMapping = { readonly [key: string]: JsonValue };

/** A way to the memory worker of a host: a child process, a pipe to another machine, the link of a node. */
export interface MemoryTransport {
  /** One exchange: the request, and the one document that the worker answers. The signal ends it on both sides. */
  request(request: JsonMapping, options: { readonly signal: AbortSignal }): Promise<JsonValue>;
  /** A watch: the request as the first line, and then one object a line until the signal ends it on both sides. */
  subscribe(request: JsonMapping, options: { readonly signal: AbortSignal }): AsyncIterable<JsonValue>;
}

/** What `createMemoryClient` takes. */
export interface MemoryClientOptions {
  readonly transport: MemoryTransport;
  /** The workspace as the gateway names it, absolute; paths of answers begin with it. */
  readonly gatewayRoot: string;
  /** The workspace on its host, absolute. */
  readonly hostRoot: string;
  /** Ends every call and watch, as when the workspace is released. */
  readonly signal: AbortSignal;
}

/** A memory file; its path is the gateway's name of it. */
export interface MemoryFileState {
  readonly path: string;
  readonly sizeBytes: number;
  /** Modification time, ISO 8601. */
  readonly modified: string;
  readonly digest: string;
}

/** What a listing found. */
export interface MemoryFileList {
  readonly files: readonly MemoryFileState[];
  /** What is not served, with the code of the reason. */
  readonly skipped: readonly { readonly path: string; readonly code: string; readonly message: string }[];
}

/** Lines of a memory file; `not_found` has empty text. */
export interface MemoryText {
  readonly status: "ok" | "not_found";
  readonly text: string;
  /** The file that was opened, as the gateway names it; empty when there is none. */
  readonly canonicalPath: string;
  readonly digest: string;
  /** Whether `maxChars` left something out. */
  readonly truncated: boolean;
}

/** Which lines. */
export interface MemoryTextOptions {
  /** The first line, from 1. */
  readonly from?: number;
  readonly lines?: number;
  readonly maxChars?: number;
  readonly signal?: AbortSignal;
}

/** What happens to memory files: `available` after a complete scan, then each change. */
export type MemoryFileEvent =
  | { readonly event: "available"; readonly epoch: string; readonly cursor: string }
  | { readonly event: "changed"; readonly path: string; readonly kind: string; readonly cursor: string }
  | { readonly event: "unavailable"; readonly reason: string; readonly cursor: string }
  | { readonly event: "gap"; readonly cursor: string };

/**
 * Memory files on their host. Paths may be the gateway's (absolute, below its root) or relative to the workspace. Faults
 * are the worker's own, with code and details as they were given.
 */
export interface MemoryClient {
  list(options?: { readonly signal?: AbortSignal }): Promise<MemoryFileList>;
  /** In the order of the paths; null for one that is gone. */
  inspect(
    paths: readonly string[],
    options?: { readonly signal?: AbortSignal },
  ): Promise<readonly (MemoryFileState | null)[]>;
  read(path: string, options?: MemoryTextOptions): Promise<MemoryText>;
  watch(options?: { readonly signal?: AbortSignal }): AsyncIterable<MemoryFileEvent>;
}

/** A client over any transport. It waits for nothing once its signal, or that of a call, has ended. */
export function createMemoryClient(options: MemoryClientOptions): MemoryClient {
  const { transport, signal } = options;
  const paths = createPathMap(options);
  const either = (own: AbortSignal | undefined): AbortSignal =>
    own ? AbortSignal.any([signal, own]) : signal;
  const ask = async (request: JsonMapping, own: AbortSignal | undefined): Promise<JsonMapping> => {
    const ended = either(own);
    ended.throwIfAborted();
    return toResult(await raceSignal(transport.request(request, { signal: ended }), ended));
  };
  return {
    list: async ({ signal: own } = {}) => {
      const { files, skipped } = await ask({ operation: "list" }, own);
      return {
        files: mappings(files).map((file) => toState(file, paths)),
        skipped: mappings(skipped).map((one) => ({
          path: paths.toGateway(text(one["path"])),
          code: text(one["code"]),
          message: text(one["message"]),
        })),
      };
    },
    inspect: async (asked, { signal: own } = {}) => {
      const request = { operation: "inspect", paths: asked.map((path) => paths.toHost(path)) };
      const { files } = await ask(request, own);
      if (!Array.isArray(files)) throw malformed();
      return files.map((file) => (isMapping(file) ? toState(file, paths) : null));
    },
    read: async (path, { signal: own, ...range } = {}) => {
      const found = await ask({ operation: "read", path: paths.toHost(path), ...range }, own);
      if (found["status"] === "not_found")
        return { status: "not_found", text: "", canonicalPath: "", digest: "", truncated: false };
      return {
        status: "ok",
        text: text(found["text"]),
        canonicalPath: paths.toGateway(text(found["canonicalPath"])),
        digest: text(found["digest"]),
        truncated: found["truncated"] === true,
      };
    },
    watch: async function* watch({ signal: own } = {}) {
      const ended = either(own);
      const lines = transport.subscribe({ operation: "watch" }, { signal: ended });
      const iterator = lines[Symbol.asyncIterator]();
      try {
        for (;;) {
          const next = await raceSignal(iterator.next(), ended);
          if (next.done === true) return;
          yield toEvent(next.value, paths);
        }
      } finally {
        iterator.return?.().catch(() => undefined);
      }
    },
  };
}

interface PathMap {
  toHost(path: string): string;
  toGateway(path: string): string;
}

/** Paths below one root have their place below the other; any other is left as it is, for its host to judge. */
function createPathMap({ gatewayRoot, hostRoot }: MemoryClientOptions): PathMap {
  const below = (root: string, path: string): string | undefined => {
    const inner = relative(root, resolve(path));
    const isOut = inner === ".." || inner.startsWith(`..${sep}`) || isAbsolute(inner);
    return isOut ? undefined : inner.split(sep).join("/");
  };
  return {
    toHost: (path) => (isAbsolute(path) ? (below(gatewayRoot, path) ?? path) : path),
    toGateway: (path) => {
      if (!isAbsolute(path)) return join(gatewayRoot, path);
      const inner = below(hostRoot, path);
      return inner === undefined ? path : join(gatewayRoot, inner);
    },
  };
}

function toResult(document: JsonValue): JsonMapping {
  if (isMapping(document) && isMapping(document["result"])) return document["result"];
  throw isMapping(document) && isMapping(document["error"]) ? toFault(document["error"]) : malformed();
}

function toFault(error: JsonMapping): Fault {
  const code = text(error["code"]);
  const details = isMapping(error["details"]) ? error["details"] : {};
  if (!isFaultCode(code)) return malformed();
  return new Fault(code, text(error["message"]), { details });
}

function toState(file: JsonMapping, paths: PathMap): MemoryFileState {
  return {
    path: paths.toGateway(text(file["path"])),
    sizeBytes: typeof file["sizeBytes"] === "number" ? file["sizeBytes"] : 0,
    modified: text(file["modified"]),
    digest: text(file["digest"]),
  };
}

function toEvent(line: JsonValue, paths: PathMap): MemoryFileEvent {
  if (!isMapping(line)) throw malformed();
  if (isMapping(line["error"])) throw toFault(line["error"]);
  const cursor = text(line["cursor"]);
  switch (text(line["event"])) {
    case "available":
      return { event: "available", epoch: text(line["epoch"]), cursor };
    case "changed":
      return {
        event: "changed",
        path: paths.toGateway(text(line["path"])),
        kind: text(line["kind"]),
        cursor,
      };
    case "unavailable":
      return { event: "unavailable", reason: text(line["reason"]), cursor };
    case "gap":
      return { event: "gap", cursor };
    default:
      throw malformed();
  }
}

function isMapping(value: JsonValue | undefined): value is JsonMapping {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function mappings(value: JsonValue | undefined): readonly JsonMapping[] {
  if (!Array.isArray(value)) throw malformed();
  return value.filter((item): item is JsonMapping => isMapping(item));
}

function text(value: JsonValue | undefined): string {
  return typeof value === "string" ? value : "";
}

function malformed(): Fault {
  return new Fault("INTERNAL", "the memory worker answered with what is no answer", {
    hint: "update fairlead where the workspace lies",
  });
}
