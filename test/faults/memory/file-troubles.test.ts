import { execFileSync } from "node:child_process";
import { expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { FaultCode } from "../../../shared/gen/fairlead/v1/fault_pb.ts";
import { EntryKind } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { Memory, WatchEventKind } from "../../../shared/gen/fairlead/v1/memory_pb.ts";
import { raceSignal } from "../../../shared/lifetime/clock.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { type MemoryKit, openMemoryKit } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const timeout = 120_000;
const patience = { timeout: 60_000, interval: 100 };
const texts: Readonly<Record<string, string>> = {
  "MEMORY.md": "word of the root\n",
  "memory/busy.md": "word of the busy one\n",
  "memory/locked.md": "word of the locked one\n",
};

/** Memory files of which one cannot be opened for 100 ms from its first read on, and one never. */
function createTroubledMemory(): { readonly service: ReturnType<typeof serve>; busyReads: number } {
  let busyUntil = 0;
  const refuse = (path: string, errno: string): Fault =>
    new Fault("IO_ERROR", `${path} cannot be opened`, { details: { path, errno } });
  const state = {
    busyReads: 0,
    service: serve(Memory, {
      list: async function* () {
        yield {
          files: Object.entries(texts).map(([path, text]) => ({
            path,
            kind: EntryKind.FILE,
            sizeBytes: BigInt(text.length),
            digest: digestOf(text),
          })),
        };
      },
      read: async ({ path }) => {
        if (path === "memory/locked.md") throw refuse(path, "EACCES");
        if (path === "memory/busy.md") {
          state.busyReads += 1;
          busyUntil ||= Date.now() + 100;
          if (Date.now() < busyUntil) throw refuse(path, "EBUSY");
        }
        const text = texts[path] ?? "";
        return { status: "ok", text, firstLine: 1, lastLine: 1, totalLines: 1, digest: digestOf(text) };
      },
      watch: async function* (_request, { signal }) {
        yield { kind: WatchEventKind.AVAILABLE, epoch: "1", sequence: 1n };
        await raceSignal(Promise.withResolvers<void>().promise, signal);
      },
    }),
  };
  return state;
}

async function findPaths(kit: MemoryKit): Promise<readonly string[]> {
  const { hits } = await kit.memory.search({ query: "word" });
  return hits.map(({ path }) => path).toSorted();
}

async function listProblems(kit: MemoryKit): Promise<readonly unknown[]> {
  const [status] = await kit.memory.status();
  return (status?.problems ?? []).map(({ path, fault }) => ({ path, code: fault?.code }));
}

proves(
  "memory.file-read-troubles",
  "a file that is busy is tried again, an unreadable one is named with its code, a FIFO holds nothing up",
  { timeout },
  async () => {
    await using kit = await openMemoryKit();
    const node = createTroubledMemory();
    kit.addService("troubled", ["app"], node.service);
    await expect.poll(() => findPaths(kit), patience).toEqual(["MEMORY.md", "memory/busy.md"]);
    expect(node.busyReads).toBeGreaterThan(1);
    await expect
      .poll(() => listProblems(kit), patience)
      .toEqual([{ path: "memory/locked.md", code: FaultCode.IO_ERROR }]);
    kit.dropNode("troubled");

    await using workspace = await makeTempWorkspace({
      "MEMORY.md": "word\n",
      "memory/a.md": "word\n",
    });
    execFileSync("mkfifo", [workspace.join("memory/fifo.md")]);
    const host = await kit.addNode("devbox", { app: workspace.path });
    await expect.poll(() => findPaths(kit), patience).toEqual(["MEMORY.md", "memory/a.md"]);
    await expect
      .poll(() => listProblems(kit), patience)
      .toEqual([{ path: "memory/fifo.md", code: FaultCode.UNSUPPORTED_FILE_TYPE }]);
    // A machine that is busy may draw one comparison out; a FIFO that is opened would hold up each of them.
    const timeOne = async (): Promise<number> => {
      const startedAt = performance.now();
      await kit.memory.search({ query: "word", waitFresh: true });
      return performance.now() - startedAt;
    };
    await expect.poll(timeOne, patience).toBeLessThan(1000);
    expect(host.pid).toBeGreaterThan(0);
  },
);
