import { expect, test } from "vitest";
import { toChunks } from "../../../gateway/memory/chunks.ts";
import { toKeywordQuery } from "../../../gateway/memory/keyword-query.ts";
import { MemoryIndex } from "../../../gateway/memory/memory-index.ts";
import { VectorMemory } from "../../../gateway/memory/vector-memory.ts";
import { toIndexedFile } from "../../support/indexed-file.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const angle = (at: number): Float32Array => Float32Array.of(Math.cos(at / 50), Math.sin(at / 50));

function fill(index: MemoryIndex): void {
  index.useVectors("model");
  for (let at = 0; at < 50; at += 1) {
    const chunks = toChunks(`passage ${at}\n`);
    index.put(`${at}.md`, toIndexedFile(), chunks);
    index.putVectors(
      "model",
      chunks.map(({ digest }) => ({ digest, vector: angle(at) })),
    );
  }
}

const nearestOf = (index: MemoryIndex, at: number): string | undefined =>
  index.search({
    query: toKeywordQuery("***"),
    limit: 5,
    meaning: { identity: "model", vector: angle(at) },
  }).hits[0]?.path;

test("indexes share the memory for vectors, and answer alike whether theirs are in it or not", async () => {
  await using folder = await makeTempFolder();
  const oneIndex = 50 * 2 * 4;
  const memory = new VectorMemory(oneIndex * 2);
  const options = { vectors: { maxMemoryBytes: 0, native: false, memory } };
  const indexes = ["a", "b", "c"].map((name) => new MemoryIndex(folder.join(`${name}.db`), options));
  for (const index of indexes) fill(index);
  for (let round = 0; round < 3; round += 1) {
    for (const [at, index] of indexes.entries()) {
      expect(nearestOf(index, at * 7 + round)).toBe(`${at * 7 + round}.md`);
      expect(memory.sizeBytes).toBeLessThanOrEqual(oneIndex * 2);
    }
  }
  expect(memory.sizeBytes).toBe(oneIndex * 2);
  // What is put and taken out is seen, in memory and on disk.
  for (const index of indexes) {
    index.remove("20.md");
    expect(nearestOf(index, 20)).toMatch(/^(?:19|21)\.md$/);
    index.put("20.md", toIndexedFile(), toChunks("passage 20\n"));
    index.putVectors(
      "model",
      toChunks("passage 20\n").map(({ digest }) => ({ digest, vector: angle(20) })),
    );
    expect(nearestOf(index, 20)).toBe("20.md");
  }
  for (const index of indexes) index[Symbol.dispose]();
  expect(memory.sizeBytes).toBe(0);
});
