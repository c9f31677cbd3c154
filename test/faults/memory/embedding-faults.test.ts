import { expect } from "vitest";
import { defaultMemorySettings } from "../../../gateway/memory/memory-settings.ts";
import type { MemoryIndexState } from "../../../gateway/memory/memory-workspace.ts";
import type { MemoryFound } from "../../../gateway/memory/memory.ts";
import type { Fault as WireFault } from "../../../shared/gen/fairlead/v1/fault_pb.ts";
import { fromWireFault } from "../../../shared/rpc/fault-wire.ts";
import { type EmbeddingRow, startEmbeddingServer } from "../../support/embedding-server.ts";
import { type MemoryKit, openMemoryKit } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";
import { createSteeredMemory } from "../../support/steered-memory.ts";
import { openTestProvider } from "../../support/test-provider.ts";

const timeout = 120_000;
const patience = { timeout: 60_000, interval: 50 };
const tenFiles = Object.fromEntries(
  Array.from({ length: 10 }, (_, at) => [`memory/n${at}.md`, `the relay number${at} waits\n`]),
);
const changing = "memory/n7.md";

const statusOf = async (kit: MemoryKit): Promise<MemoryIndexState | undefined> =>
  (await kit.memory.status())[0];
const searchAll = async (kit: MemoryKit): Promise<MemoryFound> =>
  await kit.memory.search({ query: "relay waits", limit: 100 });

proves(
  "memory.changed-while-embedding",
  "of ten files being embedded, the nine that stand are published, and the one that changed or vanished is dropped and read again",
  { timeout },
  async () => {
    const change = async (text: string | undefined): Promise<void> => {
      await using server = await startEmbeddingServer();
      const node = createSteeredMemory(tenFiles);
      const letGo = Promise.withResolvers<void>();
      // A query is embedded at once; passages wait.
      server.before = ({ texts }) => (texts[0] === "relay waits" ? undefined : letGo.promise);
      await using kit = await openMemoryKit({ provider: openTestProvider(server, { maxCalls: 16 }) });
      kit.addService("devbox", ["app"], node.service);
      await expect
        .poll(
          () =>
            server.calls.reduce((sum, { texts }) => sum + (texts[0] === "relay waits" ? 0 : texts.length), 0),
          patience,
        )
        .toBeGreaterThan(0);
      await expect.poll(async () => (await statusOf(kit))?.files, patience).toBe(10);

      // Nothing but the publication itself can notice: the watch is silent, and neither list nor read answers.
      const listing = Promise.withResolvers<void>();
      const reading = Promise.withResolvers<void>();
      node.beforeList = listing.promise;
      node.beforeRead = reading.promise;
      node.reads.length = 0;
      if (text === undefined) node.texts.delete(changing);
      else node.texts.set(changing, text);
      letGo.resolve();
      await expect
        .poll(
          async () => (await searchAll(kit)).hits.filter(({ scores }) => (scores?.vector ?? 0) > 0).length,
          patience,
        )
        .toBe(9);
      for (let round = 0; round < 5; round += 1) {
        const { hits } = await searchAll(kit);
        expect(hits.map(({ path }) => path).toSorted()).toEqual(
          Object.keys(tenFiles).filter((path) => path !== changing),
        );
        expect(hits.map((hit) => hit.text)).not.toContain("the relay number7 waits");
      }
      await expect.poll(async () => (await statusOf(kit))?.pending, patience).toBe(1);
      expect(await statusOf(kit)).toMatchObject({ fresh: false, files: 9 });

      listing.resolve();
      reading.resolve();
      const files = text === undefined ? 9 : 10;
      await expect
        .poll(async () => await statusOf(kit), patience)
        .toMatchObject({ fresh: true, pending: 0, missingVectors: 0, files });
      expect([...new Set(node.reads)]).toEqual([changing]);
      const now = (await searchAll(kit)).hits.filter(({ path }) => path === changing).map((hit) => hit.text);
      expect(now).toEqual(text === undefined ? [] : ["the relay of old is gone"]);
    };
    await Promise.all([change("the relay of old is gone\n"), change(undefined)]);
  },
);

proves(
  "memory.provider-fails",
  "while the provider refuses, times out or answers 429, words are searched, files stay pending, and the named wait is kept",
  { timeout },
  async () => {
    const faults = [
      { fault: { kind: "status", status: 503 }, expected: { code: "IO_ERROR", details: { actual: 503 } } },
      { fault: { kind: "silent" }, expected: { code: "DEADLINE_EXCEEDED" } },
      {
        fault: { kind: "status", status: 429, headers: { "retry-after": "3" } },
        expected: { code: "RATE_LIMITED", details: { retryAfterMs: 3_000 } },
      },
    ] as const;
    const fail = async ({ fault, expected }: (typeof faults)[number]): Promise<void> => {
      await using server = await startEmbeddingServer();
      const node = createSteeredMemory(tenFiles);
      server.fault = fault;
      await using kit = await openMemoryKit({
        provider: openTestProvider(server, { timeoutMs: 1_500, maxCalls: 1 }),
      });
      kit.addService("devbox", ["app"], node.service);
      await expect
        .poll(async () => await statusOf(kit), patience)
        .toMatchObject({ fresh: true, files: 10, pending: 10, missingVectors: 10 });
      await expect.poll(() => kit.memory.vectors(), patience).toMatchObject({ state: "unavailable" });
      // Asked while it is left alone: answered at once by the words, and said.
      const found = await kit.memory.search({ query: "relay number3" });
      expect(found.hits[0]).toMatchObject({ path: "memory/n3.md" });
      expect(found).toMatchObject({
        partial: true,
        vectors: { provider: "compatible", state: "unavailable" },
      });
      for (const { scores } of found.hits) expect(scores?.vector).toBeUndefined();
      const failure = readFault(kit);
      expect(failure).toMatchObject(expected);
      expect(found.workspaces[0]).toMatchObject({ pending: 10, missingVectors: 10 });

      if (fault.kind === "status" && fault.status === 429) {
        // Told to wait: no call is made before that time, however often is searched.
        const until = Number(kit.memory.vectors().retryMs ?? 0n);
        const calls = server.calls.length;
        while (Date.now() < until - 500) {
          await kit.memory.search({ query: `relay number${calls}` });
          if (Date.now() < until - 500) expect(server.calls.length).toBe(calls);
        }
      }
      server.fault = undefined;
      await expect
        .poll(async () => await statusOf(kit), patience)
        .toMatchObject({ fresh: true, pending: 0, missingVectors: 0 });
      const again = async (): Promise<MemoryFound> => await kit.memory.search({ query: "relay number5" });
      await expect.poll(again, patience).toMatchObject({ partial: false, vectors: { state: "ready" } });
      expect((await again()).hits[0]).toMatchObject({
        path: "memory/n5.md",
        scores: { vector: expect.any(Number) },
      });
    };
    await Promise.all(faults.map(fail));
  },
);

/** The reason that stands in the status, as a plain object. */
function readFault(kit: MemoryKit): unknown {
  const fault = kit.memory.vectors().fault;
  return fault && fromWireFault(fault as WireFault);
}

const bad: Readonly<Record<string, (rows: readonly EmbeddingRow[]) => unknown>> = {
  "too few": (rows) => rows.slice(1),
  "another dimension": (rows) =>
    rows.map(({ index, embedding }) => ({ index, embedding: embedding.slice(1) })),
  NaN: (rows) => rows.map(({ index, embedding }) => ({ index, embedding: ["NaN", ...embedding.slice(1)] })),
  infinity: (rows) =>
    rows.map(({ index, embedding }) => ({ index, embedding: ["1e999", ...embedding.slice(1)] })),
};

proves(
  "memory.provider-bad-vectors",
  "of a batch with bad vectors none is stored, its files stay pending with the reason, and searches go on",
  { timeout },
  async () => {
    const spoil = async ([name, change]: [
      string,
      (rows: readonly EmbeddingRow[]) => unknown,
    ]): Promise<void> => {
      await using server = await startEmbeddingServer();
      const node = createSteeredMemory({ "MEMORY.md": "the first word\n" });
      await using kit = await openMemoryKit({ provider: openTestProvider(server) });
      kit.addService("devbox", ["app"], node.service);
      await expect
        .poll(async () => await statusOf(kit), patience)
        .toMatchObject({ fresh: true, pending: 0, missingVectors: 0, files: 1 });

      // One bad vector among good ones: none of them is taken.
      server.fault = ({ texts }) =>
        texts[0] === "relay waits"
          ? undefined
          : {
              kind: "rows",
              change: (rows) => [...(change(rows.slice(0, 1)) as unknown[]), ...rows.slice(1)],
            };
      for (const [path, text] of Object.entries(tenFiles)) node.texts.set(path, text);
      await expect
        .poll(async () => await statusOf(kit), patience)
        .toMatchObject({
          fresh: true,
          files: 11,
          pending: 10,
          missingVectors: 10,
          vectorsFault: { message: expect.stringContaining("the embedding provider") },
        });
      for (let round = 0; round < 3; round += 1) {
        const found = await searchAll(kit);
        expect(
          found.hits.filter(({ path }) => path !== "MEMORY.md"),
          name,
        ).toHaveLength(10);
        for (const { path, scores } of found.hits) {
          if (path !== "MEMORY.md") expect(scores?.vector).toBeUndefined();
        }
      }
      expect(await statusOf(kit)).toMatchObject({ missingVectors: 10 });
      server.fault = undefined;
      await expect
        .poll(async () => await statusOf(kit), patience)
        .toMatchObject({ fresh: true, pending: 0, missingVectors: 0, vectorsFault: undefined });
    };
    await Promise.all(Object.entries(bad).map(spoil));
  },
);

proves(
  "memory.search-deadline",
  "when vectors do not answer within the search's time its hits by keyword are marked as partial, and the next is not held back",
  { timeout },
  async () => {
    expect(defaultMemorySettings.searchMs).toBe(30_000);
    await using server = await startEmbeddingServer();
    const node = createSteeredMemory(tenFiles);
    const settings = { ...defaultMemorySettings, searchMs: 400 };
    await using kit = await openMemoryKit({ provider: openTestProvider(server, { maxCalls: 1 }), settings });
    kit.addService("devbox", ["app"], node.service);
    await expect
      .poll(async () => await statusOf(kit), patience)
      .toMatchObject({ fresh: true, pending: 0, missingVectors: 0, files: 10 });
    server.fault = ({ texts }) => (texts[0]?.includes("never") === true ? { kind: "silent" } : undefined);
    const late = await kit.memory.search({ query: "relay number4 never" });
    expect(late).toMatchObject({ partial: true, vectors: { state: "late" } });
    expect(late.hits).toHaveLength(10);
    expect(late.hits[0]).toMatchObject({ path: "memory/n4.md" });
    for (const { scores } of late.hits) expect(scores?.vector).toBeUndefined();
    // The provider takes one call at a time: that of the late search has left its place.
    await expect
      .poll(async () => await kit.memory.search({ query: "relay number6" }), patience)
      .toMatchObject({ partial: false, vectors: { state: "ready" } });
    const next = await kit.memory.search({ query: "relay number6" });
    expect(next.hits[0]).toMatchObject({ path: "memory/n6.md", scores: { vector: expect.any(Number) } });
  },
);
