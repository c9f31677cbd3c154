import type { MessageInitShape } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import { EntryKind, type EntrySchema } from "../../shared/gen/fairlead/v1/files_pb.ts";
import {
  Memory,
  type MemoryInspectResponseSchema,
  type MemoryReadRequest,
  type MemoryReadResponseSchema,
  type MemoryWatchResponseSchema,
  WatchEventKind,
} from "../../shared/gen/fairlead/v1/memory_pb.ts";
import { type Clock, systemClock } from "../../shared/lifetime/clock.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import { serve, type ServedService } from "../../shared/rpc/service.ts";
import { toOpenOptions, type WorkerWorkspaces } from "../workers/worker-settings.ts";
import type { ExportSettings } from "../workspace/export-settings.ts";
import { openWorkspace, type Workspace } from "../workspace/open-workspace.ts";
import { cutLines } from "./cut-lines.ts";
import { MemoryFiles } from "./memory-files.ts";
import { type MemoryEvent, MemoryWatch } from "./memory-watch.ts";
import { maxInspectedPaths } from "./worker-requests.ts";

/** What `serveMemory` takes. */
export interface ServeMemoryOptions extends WorkerWorkspaces {
  readonly clock?: Clock;
  /** Still for so long, in milliseconds, before a change is told. */
  readonly debounceMs?: number;
}

/** The memory files of all workspaces, read in this process. The caller disposes it. */
export interface ServedMemory extends AsyncDisposable {
  readonly service: ServedService;
}

const filesPerMessage = 500;
const defaultMaxChars = 65_536;
const defaultDebounceMs = 500;

interface Opened {
  readonly workspace: Workspace;
  readonly files: MemoryFiles;
  readonly watch: MemoryWatch;
}

/** Serves `Memory` over these workspaces. One that cannot be opened fails alone, whenever it is asked for. */
export function serveMemory(options: ServeMemoryOptions): ServedMemory {
  const shelf = new Shelf(options);
  const service = serve(Memory, {
    list: async function* (request, { signal }) {
      const { files } = await shelf.open(request.workspace);
      const scan = await files.scan(signal);
      for (let at = 0; at < scan.files.length; at += filesPerMessage) {
        yield { files: scan.files.slice(at, at + filesPerMessage).map(toEntry) };
      }
      for (let at = 0; at < scan.skipped.length; at += filesPerMessage) {
        const part = scan.skipped.slice(at, at + filesPerMessage);
        yield { skipped: part.map(({ path, fault }) => ({ path, fault: toWireFault(fault) })) };
      }
    },
    inspect: async (request) => inspect((await shelf.open(request.workspace)).files, request.paths),
    read: async (request) => read((await shelf.open(request.workspace)).files, request),
    watch: async function* (request, { signal }) {
      const { watch } = await shelf.open(request.workspace);
      for await (const event of watch.subscribe(signal)) yield toWireEvent(event);
    },
  });
  return { service, [Symbol.asyncDispose]: () => shelf[Symbol.asyncDispose]() };
}

/** The workspaces by name, each opened when it is first asked for. */
class Shelf implements AsyncDisposable {
  readonly #options: ServeMemoryOptions;
  readonly #opened = new Map<string, Promise<Opened>>();

  constructor(options: ServeMemoryOptions) {
    this.#options = options;
  }

  open(name: string): Promise<Opened> {
    const known = this.#opened.get(name);
    if (known) return known;
    const settings = this.#options.workspaces.find((workspace) => workspace.name === name);
    if (!settings) {
      throw new Fault("NOT_FOUND", `this machine exports no workspace ${JSON.stringify(name.slice(0, 64))}`, {
        details: { field: "workspace" },
        hint: "fairlead workspaces ls",
      });
    }
    const opening = this.#open(settings);
    this.#opened.set(name, opening);
    // A folder that is not there now may be there at the next question.
    opening.catch(() => this.#opened.delete(name));
    return opening;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const opening of this.#opened.values()) {
      const opened = await opening.catch(() => undefined);
      await opened?.workspace[Symbol.asyncDispose]();
    }
  }

  async #open(settings: ExportSettings): Promise<Opened> {
    const clock = this.#options.clock ?? systemClock;
    const workspace = await openWorkspace(settings, toOpenOptions(this.#options));
    const files = new MemoryFiles(workspace.root, clock);
    const debounceMs = this.#options.debounceMs ?? defaultDebounceMs;
    return { workspace, files, watch: new MemoryWatch({ dir: settings.dir, files, clock, debounceMs }) };
  }
}

const wireKinds = {
  available: WatchEventKind.AVAILABLE,
  changed: WatchEventKind.CHANGED,
  gap: WatchEventKind.GAP,
  unavailable: WatchEventKind.UNAVAILABLE,
} as const;

function toWireEvent(event: MemoryEvent): MessageInitShape<typeof MemoryWatchResponseSchema> {
  const { epoch, sequence } = event;
  const kind = wireKinds[event.kind];
  if (event.kind === "changed") return { kind, epoch, sequence, path: event.path, change: event.change };
  if (event.kind === "unavailable") return { kind, epoch, sequence, fault: toWireFault(event.fault) };
  return { kind, epoch, sequence };
}

async function inspect(
  files: MemoryFiles,
  paths: readonly string[],
): Promise<MessageInitShape<typeof MemoryInspectResponseSchema>> {
  if (paths.length > maxInspectedPaths) {
    throw new Fault("INVALID_ARGUMENT", `${paths.length} paths are asked for; at most ${maxInspectedPaths}`, {
      details: { field: "paths", limit: maxInspectedPaths, actual: paths.length },
    });
  }
  const found = await files.inspect(paths);
  return {
    files: found.map((one) => {
      if (!one) return {};
      return one instanceof Fault ? { fault: toWireFault(one) } : { file: toEntry(one) };
    }),
  };
}

async function read(
  files: MemoryFiles,
  request: MemoryReadRequest,
): Promise<MessageInitShape<typeof MemoryReadResponseSchema>> {
  const found = await files.read(request.path);
  if (!found) return { status: "not_found" };
  const maxChars = request.maxChars === 0 ? defaultMaxChars : Math.min(request.maxChars, 1024 * 1024);
  const lines = cutLines(found.text, { from: Math.max(1, request.from), lines: request.lines, maxChars });
  const source = {
    workspace: request.workspace,
    requestedPath: request.path,
    canonicalPath: found.canonicalPath,
  };
  return { status: "ok", ...lines, digest: found.digest, source };
}

function toEntry(file: {
  readonly entry: {
    readonly path: string;
    readonly sizeBytes: number;
    readonly mode: number;
    readonly mtimeNs: bigint;
  };
  readonly digest: string;
}): MessageInitShape<typeof EntrySchema> {
  return {
    path: file.entry.path,
    kind: EntryKind.FILE,
    sizeBytes: BigInt(file.entry.sizeBytes),
    mode: file.entry.mode,
    modifiedNs: file.entry.mtimeNs,
    digest: file.digest,
  };
}
