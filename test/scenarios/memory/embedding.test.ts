import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";
import { toChunks, toChunkSize, toEmbeddedText } from "../../../gateway/memory/chunks.ts";
import { defaultMemorySettings } from "../../../gateway/memory/memory-settings.ts";
import type { MemoryFound } from "../../../gateway/memory/memory.ts";
import { startEmbeddingServer } from "../../support/embedding-server.ts";
import { type MemoryKit, openMemoryKit } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";
import { openTestProvider } from "../../support/test-provider.ts";

const timeout = 120_000;
const patience = { timeout: 60_000, interval: 50 };

/** Resolves once every passage has its vector. */
async function settle(kit: MemoryKit, files: number): Promise<void> {
  await expect
    .poll(async () => (await kit.memory.status())[0], patience)
    .toMatchObject({ fresh: true, pending: 0, missingVectors: 0, files });
}

const readsOf = (kit: MemoryKit): readonly string[] =>
  kit.links.calls.filter((call) => call.endsWith("/Read"));
const paragraph = (name: string): string => Array.from({ length: 70 }, (_, at) => `${name}x${at}`).join(" ");
const sections = (file: number, edited = ""): string =>
  Array.from(
    { length: 3 },
    (_, at) => `## Part ${at}\n\n${at === 1 ? edited : ""}${paragraph(`f${file}p${at}`)}\n`,
  ).join("\n");

proves(
  "memory.incremental",
  "an edit of one paragraph sends the chunks that changed and nothing else, and a rename or a touch sends none",
  { timeout },
  async () => {
    await using server = await startEmbeddingServer();
    const files = Object.fromEntries(
      Array.from({ length: 1_000 }, (_, file) => [`memory/${file % 10}/n${file}.md`, sections(file)]),
    );
    await using workspace = await makeTempWorkspace(files);
    await using kit = await openMemoryKit({ provider: openTestProvider(server) });
    await kit.addNode("devbox", { app: workspace.path });
    await settle(kit, 1_000);
    const known = new Set(server.embedded);
    expect(known.size).toBe(3_000);
    expect(server.embedded).toHaveLength(3_000);

    const before = { reads: readsOf(kit).length, sent: server.embedded.length };
    const text = sections(333, "One sentence more. ");
    await workspace.write({ "memory/3/n333.md": text });
    // Told by the watch: whoever asked now would have it read before that.
    await expect.poll(() => readsOf(kit).length, patience).toBe(before.reads + 1);
    await settle(kit, 1_000);
    expect(readsOf(kit)).toHaveLength(before.reads + 1);
    const changed = toChunks(text)
      .map(toEmbeddedText)
      .filter((each) => !known.has(each));
    expect(changed).toHaveLength(1);
    expect(server.embedded.slice(before.sent)).toEqual(changed);

    // A rename, and a file that is written again with the text that it had.
    const sent = server.calls.length;
    await workspace.remove("memory/3/n333.md");
    await workspace.write({ "memory/3/renamed.md": text, "memory/4/n334.md": sections(334) });
    await expect
      .poll(
        async () => (await kit.memory.search({ query: "sentence", waitFresh: true })).hits[0]?.path,
        patience,
      )
      .toBe("memory/3/renamed.md");
    await settle(kit, 1_000);
    const queries = server.calls.slice(sent).flatMap(({ texts }) => texts);
    expect(queries.filter((each) => each !== "sentence")).toEqual([]);
    const found = await kit.memory.search({ query: "sentence" });
    expect(found.hits[0]).toMatchObject({ path: "memory/3/renamed.md" });
    expect(found.hits[0]?.scores?.vector).toBeGreaterThan(0);
  },
);

/** The models whose vectors are in the index file and how long those are. */
function lookInto(kit: MemoryKit): { readonly model: string; readonly bytes: readonly number[] } {
  using database = new DatabaseSync(join(kit.indexDir, "devbox-app.db"), { readOnly: true });
  const model = database.prepare("SELECT value FROM meta WHERE key = 'embedding'").get()?.["value"];
  const rows = database
    .prepare("SELECT DISTINCT length(vector) AS n FROM vectors WHERE vector IS NOT NULL")
    .all();
  return { model: String(model), bytes: rows.map(({ n }) => Number(n)) };
}

proves(
  "memory.provider-changed",
  "another model, provider or chunking: keyword search goes on, vectors are made anew, and none of two models meet",
  { timeout },
  async () => {
    await using first = await startEmbeddingServer({ dimensions: 32 });
    await using second = await startEmbeddingServer({ dimensions: 48 });
    const files = Object.fromEntries(
      Array.from({ length: 40 }, (_, at) => [
        `memory/n${at}.md`,
        `# Note ${at}\n\nthe car number${at} waits\n${sections(at)}`,
      ]),
    );
    await using workspace = await makeTempWorkspace(files);
    await using kit = await openMemoryKit({ provider: openTestProvider(first, { model: "one" }) });
    await kit.addNode("devbox", { app: workspace.path });
    await settle(kit, 40);
    // "automobile" stands in no file: it is found by its meaning.
    const byMeaning = async (): Promise<MemoryFound> =>
      await kit.memory.search({ query: "automobile number7" });
    expect((await byMeaning()).hits[0]).toMatchObject({ path: "memory/n7.md" });
    expect(lookInto(kit)).toMatchObject({ model: expect.stringContaining("one"), bytes: [32 * 4] });

    const changes = [
      { server: first, provider: openTestProvider(first, { model: "two" }), model: "two", dimensions: 32 },
      {
        server: second,
        provider: openTestProvider(second, { model: "two", kind: "vllm" }),
        model: "vllm",
        dimensions: 48,
      },
    ];
    for (const { server, provider, model, dimensions } of changes) {
      const reads = readsOf(kit).length;
      // Nothing is embedded until it is let go, but for queries.
      const gate = Promise.withResolvers<void>();
      server.before = ({ texts }) =>
        texts.length === 1 && texts[0]?.startsWith("automobile") ? undefined : gate.promise;
      await kit.restart(undefined, { provider });
      for (let round = 0; round < 5; round += 1) {
        const found = await kit.memory.search({ query: "car number7", vectorsMs: 100 });
        expect(found.hits[0]).toMatchObject({ path: "memory/n7.md" });
        for (const { scores } of found.hits) expect(scores?.vector).toBeUndefined();
      }
      // The query has a vector of the new model; the old one's vectors have no part in its answer.
      const mixed = await byMeaning();
      for (const { scores } of mixed.hits) expect(scores?.vector).toBeUndefined();
      expect(lookInto(kit)).toEqual({ model: expect.stringContaining(model), bytes: [] });
      gate.resolve();
      server.before = undefined;
      await settle(kit, 40);
      expect((await byMeaning()).hits[0]).toMatchObject({
        path: "memory/n7.md",
        scores: { vector: expect.any(Number) },
      });
      expect(lookInto(kit)).toEqual({ model: expect.stringContaining(model), bytes: [dimensions * 4] });
      // The text was there: no file was read for it.
      expect(readsOf(kit)).toHaveLength(reads);
    }

    // Another chunking: the files are read and cut anew, each in one step, while what is there answers.
    const settings = { ...defaultMemorySettings, chunkSize: toChunkSize(64, 8) };
    const held = (await kit.memory.status())[0]?.chunks ?? 0;
    const reads = readsOf(kit).length;
    await kit.restart(undefined, {
      provider: openTestProvider(second, { model: "two", kind: "vllm" }),
      settings,
    });
    for (let round = 0; round < 10; round += 1) {
      expect((await kit.memory.search({ query: "car number7" })).hits[0]).toMatchObject({
        path: "memory/n7.md",
      });
    }
    await expect.poll(() => readsOf(kit).length, patience).toBe(reads + 40);
    await settle(kit, 40);
    const status = (await kit.memory.status())[0];
    expect(status?.chunks).toBeGreaterThan(held * 2);
    const small = await kit.memory.search({ query: "car number7", limit: 100 });
    for (const { text } of small.hits) expect(text.length).toBeLessThanOrEqual(256);
    expect(lookInto(kit).bytes).toEqual([48 * 4]);
  },
);
