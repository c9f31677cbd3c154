import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { defaultCacheEntries, EmbeddingCache } from "../../../gateway/memory/embedding/embedding-cache.ts";
import { defaultMemorySettings } from "../../../gateway/memory/memory-settings.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { startEmbeddingServer } from "../../support/embedding-server.ts";
import { openMemoryKit } from "../../support/memory-kit.ts";
import { proves } from "../../support/proves.ts";
import { createSteeredMemory } from "../../support/steered-memory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { openTestProvider } from "../../support/test-provider.ts";

const keyOf = (text: string): string => digestOf(text).slice("sha256:".length);
const vectorOf = (number: number): Float32Array => Float32Array.of(number, 1, 2, 3);
const entry = (number: number): { readonly digest: string; readonly vector: Float32Array } => ({
  digest: keyOf(String(number)),
  vector: vectorOf(number),
});
const range = (from: number, to: number): readonly number[] =>
  Array.from({ length: to - from }, (_, at) => from + at);

proves(
  "memory.cache-bounded",
  "the cache holds 50,000 entries, what was used least recently goes first, and 60,000 chunks are all indexed with their vectors",
  { timeout: 300_000 },
  async () => {
    expect(defaultCacheEntries).toBe(50_000);
    expect(defaultMemorySettings.cacheEntries).toBe(50_000);
    await using folder = await makeTempFolder();
    {
      using cache = new EmbeddingCache(folder.join("cache.db"), defaultCacheEntries);
      for (let at = 0; at < 50_000; at += 1_000) cache.put("model", range(at, at + 1_000).map(entry));
      expect(cache.size).toBe(50_000);
      // The first thousand are used again, so those after them are the oldest.
      expect(
        cache.find(
          "model",
          range(0, 1_000).map((number) => entry(number).digest),
        ).size,
      ).toBe(1_000);
      cache.put("model", range(50_000, 60_000).map(entry));
      expect(cache.size).toBe(50_000);
      const find = (from: number, to: number): number =>
        cache.find(
          "model",
          range(from, to).map((number) => entry(number).digest),
        ).size;
      expect([find(0, 1_000), find(1_000, 11_000), find(11_000, 60_000)]).toEqual([1_000, 0, 49_000]);
      expect(cache.find("model", [entry(55_555).digest]).get(entry(55_555).digest)).toEqual(vectorOf(55_555));
    }

    // The whole way: 60,000 different chunks through the cache of that size.
    await using server = await startEmbeddingServer({ dimensions: 4 });
    const files = Object.fromEntries(
      range(0, 60).map((file) => [
        `memory/n${file}.md`,
        range(0, 1_000)
          .map((at) => `# Part ${file} ${at}\n${"words ".repeat(10)}\n`)
          .join(""),
      ]),
    );
    const node = createSteeredMemory(files);
    const settings = { ...defaultMemorySettings, chunkSize: { maxLength: 128, maxOverlap: 0 } };
    const provider = openTestProvider(server, { batchTexts: 1_000 });
    await using kit = await openMemoryKit({ provider, settings });
    kit.addService("devbox", ["app"], node.service);
    await expect
      .poll(async () => (await kit.memory.status())[0], { timeout: 240_000, interval: 200 })
      .toMatchObject({ fresh: true, files: 60, chunks: 60_000, pending: 0, missingVectors: 0 });
    expect(new Set(server.embedded).size).toBe(60_000);
    await kit.memory[Symbol.asyncDispose]();
    using cache = new EmbeddingCache(join(kit.indexDir, "embeddings.db"), 1_000_000);
    expect(cache.size).toBe(50_000);
  },
);

test("the cache is there after a restart, keeps models apart, forgets by digest, and begins anew when it is damaged", async () => {
  await using folder = await makeTempFolder();
  const path = folder.join("cache.db");
  {
    using cache = new EmbeddingCache(path, 10);
    cache.put("one", range(0, 5).map(entry));
    cache.put("two", [{ digest: entry(1).digest, vector: vectorOf(100) }]);
  }
  {
    using cache = new EmbeddingCache(path, 10);
    expect(cache.size).toBe(6);
    expect(cache.find("one", [entry(1).digest]).get(entry(1).digest)).toEqual(vectorOf(1));
    expect(cache.find("two", [entry(1).digest]).get(entry(1).digest)).toEqual(vectorOf(100));
    expect(cache.find("three", [entry(1).digest]).size).toBe(0);
    // Another vector of the same text takes the place of the one before.
    cache.put("two", [{ digest: entry(1).digest, vector: vectorOf(7) }]);
    expect(cache.size).toBe(6);
    expect(cache.find("two", [entry(1).digest]).get(entry(1).digest)).toEqual(vectorOf(7));
    cache.remove([entry(1).digest, entry(99).digest]);
    expect(cache.size).toBe(4);
    expect(cache.find("one", [entry(1).digest]).size + cache.find("two", [entry(1).digest]).size).toBe(0);
  }
  {
    // A smaller limit than before holds from the start.
    using cache = new EmbeddingCache(path, 2);
    expect(cache.size).toBe(2);
  }
  writeFileSync(path, Buffer.alloc(statSync(path).size, 7));
  using cache = new EmbeddingCache(path, 10);
  expect(cache.size).toBe(0);
  cache.put("one", [entry(1)]);
  expect(cache.size).toBe(1);
});
