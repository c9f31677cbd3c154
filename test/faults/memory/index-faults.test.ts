import { readdirSync } from "node:fs";
import { open, readFile, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { EntryKind } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { Memory, WatchEventKind } from "../../../shared/gen/fairlead/v1/memory_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openMemoryKit } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

const timeout = 180_000;

proves(
  "memory.fresh-or-flagged",
  "in 200 rounds of write and search each answer holds the new text or says that it is not fresh",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({ "MEMORY.md": "start\n", "memory/a.md": "a\n" });
    await using kit = await openMemoryKit();
    await kit.addNode("devbox", { app: workspace.path });
    await kit.memory.search({ query: "start", waitFresh: true });
    let fresh = 0;
    for (let round = 0; round < 200; round += 1) {
      await workspace.write({ [round % 2 === 0 ? "MEMORY.md" : "memory/a.md"]: `word${round}\n` });
      const askedAt = Date.now();
      const { hits, workspaces } = await kit.memory.search({ query: `word${round}` });
      const [state] = workspaces;
      if (hits.length === 0) {
        expect(state).toMatchObject({ fresh: false });
        expect(state?.reason).not.toBe("");
        expect(state?.verifiedMs).toBeGreaterThan(0n);
        expect(state?.verifiedMs).toBeLessThanOrEqual(BigInt(askedAt));
      } else fresh += 1;
    }
    expect(fresh).toBeGreaterThan(0);
  },
);

/** A node's memory that a test steers. */
function createFlakyMemory(): {
  readonly service: ReturnType<typeof serve>;
  failing: number;
  lists: number;
  slowMs: number;
} {
  const text = "steady word\n";
  const state = {
    failing: 0,
    lists: 0,
    slowMs: 0,
    service: undefined as unknown as ReturnType<typeof serve>,
  };
  state.service = serve(Memory, {
    list: async function* (_request, { signal }) {
      state.lists += 1;
      if (state.slowMs > 0) await systemClock.sleep(state.slowMs, { signal });
      if (state.failing > 0) {
        state.failing -= 1;
        throw new Fault("IO_ERROR", "the disk is away", { retryable: true });
      }
      yield { files: [{ path: "MEMORY.md", kind: EntryKind.FILE, sizeBytes: 12n, digest: digestOf(text) }] };
    },
    read: async () => ({
      status: "ok",
      text,
      firstLine: 1,
      lastLine: 1,
      totalLines: 1,
      digest: digestOf(text),
    }),
    watch: async function* (_request, { signal }) {
      yield { kind: WatchEventKind.AVAILABLE, epoch: "1", sequence: 1n };
      await systemClock.sleep(60_000, { signal });
    },
  });
  return state;
}

proves(
  "memory.reader-stops-not-writer",
  "a search that is cancelled or times out ends no sync, and a sync that failed is tried again until it succeeds",
  { timeout },
  async () => {
    await using kit = await openMemoryKit();
    const node = createFlakyMemory();
    node.slowMs = 800;
    node.failing = 2;
    kit.addService("devbox", ["app"], node.service);
    const cancel = new AbortController();
    const cancelled = kit.memory.search({ query: "steady", waitFresh: true, signal: cancel.signal });
    const impatient = kit.memory.search({ query: "steady", waitFresh: true, waitMs: 50 });
    cancel.abort(new Fault("CANCELLED", "the caller has left"));
    await expect(cancelled).rejects.toMatchObject({ code: "CANCELLED" });
    expect(await impatient).toMatchObject({ hits: [], workspaces: [{ fresh: false }] });
    // Nobody asks any more, and the sync goes on by itself, through its failures.
    await expect.poll(() => node.lists, { timeout: 30_000 }).toBeGreaterThanOrEqual(3);
    node.slowMs = 0;
    await expect
      .poll(async () => (await kit.memory.search({ query: "steady" })).hits.length, { timeout: 30_000 })
      .toBe(1);
  },
);

test(
  "while the watch is unavailable searches go on and say so, and changes are found all the same",
  { timeout },
  async () => {
    await using kit = await openMemoryKit();
    let subscriptions = 0;
    let isBroken = true;
    const texts = new Map([["MEMORY.md", "first\n"]]);
    const service = serve(Memory, {
      list: async function* () {
        const files = [...texts].map(([path, text]) => ({
          path,
          kind: EntryKind.FILE,
          sizeBytes: BigInt(text.length),
          digest: digestOf(text),
        }));
        yield { files };
      },
      read: async ({ path }) => {
        const text = texts.get(path);
        return text === undefined
          ? { status: "not_found" }
          : { status: "ok", text, firstLine: 1, lastLine: 1, totalLines: 1, digest: digestOf(text) };
      },
      watch: async function* (_request, { signal }) {
        subscriptions += 1;
        if (!isBroken) yield { kind: WatchEventKind.AVAILABLE, epoch: String(subscriptions), sequence: 1n };
        else throw new Fault("IO_ERROR", "no watch is left", { details: { errno: "ENOSPC" } });
        await systemClock.sleep(60_000, { signal });
      },
    });
    kit.addService("devbox", ["app"], service);
    const reason = async (): Promise<string | undefined> =>
      (await kit.memory.search({ query: "first" })).workspaces[0]?.reason;
    await expect.poll(reason).toBe("watch_unavailable");
    expect((await kit.memory.search({ query: "first" })).hits).toHaveLength(1);
    texts.set("memory/second.md", "second\n");
    expect((await kit.memory.search({ query: "second", waitFresh: true })).hits).toHaveLength(1);
    await expect.poll(() => subscriptions, { timeout: 30_000 }).toBeGreaterThan(2);
    isBroken = false;
    await expect.poll(reason, { timeout: 30_000 }).toBe("");
  },
);

proves(
  "memory.index-damaged",
  "an index that was altered or cannot be opened is told, built again, and never taken for an empty one",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace(
      Object.fromEntries(
        Array.from({ length: 40 }, (_, index) => [
          `memory/n${index}.md`,
          `needle number ${index}\n${"hay ".repeat(300)}`,
        ]),
      ),
    );
    await using kit = await openMemoryKit();
    const host = await kit.addNode("devbox", { app: workspace.path });
    await kit.memory.search({ query: "needle", waitFresh: true });
    const file = join(kit.indexDir, "devbox-app.db");
    const damages: readonly (readonly [string, () => Promise<void>])[] = [
      ["a file that is no index", () => writeFile(file, "not a database at all\n".repeat(500))],
      [
        "half of the file",
        async () => await truncate(file, Math.floor((await readFile(file)).byteLength / 2)),
      ],
      ["another text in a passage", () => replaceInFile(file, "needle number 7\n", "noodle number 7\n")],
      ["pages of zeros", () => zeroPages(file)],
    ];
    for (const [what, damage] of damages) {
      kit.links.disconnect("devbox");
      await kit.restart(async () => {
        for (const name of readdirSync(kit.indexDir))
          if (name.endsWith("-wal")) await truncate(join(kit.indexDir, name), 0);
        await damage();
      });
      // The node is away: there is nothing to build from, and the answer must not read like an empty memory.
      const away = await kit.memory.search({ query: "needle number 7", limit: 100 });
      expect(away.workspaces, what).toMatchObject([{ fresh: false }]);
      if (away.hits.length < 40) {
        expect(away.workspaces[0]?.reason, what).toMatch(/^(?:rebuilding|index_unavailable)$/);
        expect((await kit.memory.status())[0]?.reason, what).toMatch(/^(?:rebuilding|index_unavailable)$/);
      }
      for (const hit of away.hits) expect(hit.text, what).toContain("needle number");
      kit.links.connect({ nodeId: "devbox", services: [host.service] });
      const back = await kit.memory.search({ query: "needle number", limit: 100, waitFresh: true });
      expect(back.workspaces, what).toMatchObject([{ fresh: true, reason: "", files: 40 }]);
      expect(new Set(back.hits.map(({ path }) => path)).size, what).toBe(40);
    }
  },
);

async function replaceInFile(path: string, from: string, to: string): Promise<void> {
  const bytes = await readFile(path);
  for (let at = bytes.indexOf(from); at >= 0; at = bytes.indexOf(from, at + 1)) bytes.write(to, at);
  await writeFile(path, bytes);
}

async function zeroPages(path: string): Promise<void> {
  await using file = await open(path, "r+");
  const { size } = await file.stat();
  for (let at = 8192; at + 4096 < size; at += 3 * 4096) await file.write(Buffer.alloc(4096), 0, 4096, at);
}

test(
  "a worker that is killed while it works is followed by another, and the index is current again",
  { timeout },
  async () => {
    await using workspace = await makeTempWorkspace({ "MEMORY.md": "first\n" });
    await using kit = await openMemoryKit();
    const host = await kit.addNode("devbox", { app: workspace.path });
    await kit.memory.search({ query: "first", waitFresh: true });
    for (let round = 0; round < 3; round += 1) {
      const { pid } = host;
      expect(pid).toBeGreaterThan(0);
      process.kill(pid ?? 0, "SIGKILL");
      await workspace.write({ "memory/after.md": `round${round}\n` });
      const got = await kit.memory.get({ workspaceId: "devbox-app", path: "MEMORY.md" });
      expect(got.text).toBe("first\n");
      const found = await kit.memory.search({ query: `round${round}`, waitFresh: true });
      expect(found.hits).toHaveLength(1);
      expect(host.pid).not.toBe(pid);
    }
  },
);
