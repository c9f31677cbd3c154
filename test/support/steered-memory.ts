import { digestOf } from "../../shared/content/digest.ts";
import { EntryKind } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { Memory, WatchEventKind } from "../../shared/gen/fairlead/v1/memory_pb.ts";
import { raceSignal } from "../../shared/lifetime/clock.ts";
import { serve, type ServedService } from "../../shared/rpc/service.ts";

/** A node's memory that a test steers: its watch tells nothing, and its files are these texts. */
export interface SteeredMemory {
  readonly service: ServedService;
  /** Path to text. */
  readonly texts: Map<string, string>;
  /** Paths that were read, in order. */
  readonly reads: string[];
  /** Paths that were inspected, in order. */
  readonly inspected: string[];
  /** Waited for before each list. */
  beforeList: Promise<void> | undefined;
  /** Waited for before each read. */
  beforeRead: Promise<void> | undefined;
}

/** Makes one with these files. */
export function createSteeredMemory(files: Readonly<Record<string, string>>): SteeredMemory {
  const texts = new Map(Object.entries(files));
  const toEntry = (path: string, text: string): object => ({
    path,
    kind: EntryKind.FILE,
    sizeBytes: BigInt(Buffer.byteLength(text)),
    digest: digestOf(text),
  });
  const service = serve(Memory, {
    list: async function* (_request, { signal }) {
      await raceSignal(Promise.resolve(memory.beforeList), signal);
      yield { files: [...texts].map(([path, text]) => toEntry(path, text)) };
    },
    inspect: async ({ paths }) => {
      memory.inspected.push(...paths);
      return {
        files: paths.map((path) => {
          const text = texts.get(path);
          return text === undefined ? {} : { file: toEntry(path, text) };
        }),
      };
    },
    read: async ({ path }, { signal }) => {
      memory.reads.push(path);
      await raceSignal(Promise.resolve(memory.beforeRead), signal);
      const text = texts.get(path);
      if (text === undefined) return { status: "not_found" };
      const lines = text.split("\n").length;
      return { status: "ok", text, firstLine: 1, lastLine: lines, totalLines: lines, digest: digestOf(text) };
    },
    watch: async function* (_request, { signal }) {
      yield { kind: WatchEventKind.AVAILABLE, epoch: "1", sequence: 1n };
      await raceSignal(Promise.withResolvers<void>().promise, signal);
    },
  });
  const memory: SteeredMemory = {
    service,
    texts,
    reads: [],
    inspected: [],
    beforeList: undefined,
    beforeRead: undefined,
  };
  return memory;
}
