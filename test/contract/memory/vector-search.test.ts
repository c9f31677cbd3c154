import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";
import { toChunks } from "../../../gateway/memory/chunks.ts";
import { toKeywordQuery } from "../../../gateway/memory/keyword-query.ts";
import { MemoryIndex } from "../../../gateway/memory/memory-index.ts";
import { loadVectorExtension } from "../../../gateway/memory/vector-extension.ts";
import { toIndexedFile } from "../../support/indexed-file.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** Numbers that are the same in every run. */
function* countFrom(seed: number): Generator<number, never> {
  for (let state = seed; ;) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 4_294_967_296 - 0.5;
  }
}

function makeVector(numbers: Iterator<number, never>, dimensions: number): Float32Array {
  const vector = Array.from({ length: dimensions }, () => numbers.next().value);
  const length = Math.hypot(...vector);
  return Float32Array.from(vector, (number) => number / length);
}

proves(
  "memory.vector-paths-agree",
  "in memory, by the native extension and one by one from the file, the ten best of 5,000 are the same in one order",
  { timeout: 120_000 },
  async (context) => {
    using probe = new DatabaseSync(":memory:", { allowExtension: true });
    if (!loadVectorExtension(probe)) context.skip("the native extension does not run on this machine");
    await using folder = await makeTempFolder();
    const dimensions = 96;
    const numbers = countFrom(7);
    const path = folder.join("index.db");
    const ways = {
      memory: { maxMemoryBytes: 1_073_741_824, native: false },
      native: { maxMemoryBytes: 0, native: true },
      plain: { maxMemoryBytes: 0, native: false },
    } as const;
    {
      using index = new MemoryIndex(path, { vectors: ways.plain });
      index.useVectors("model");
      for (let file = 0; file < 50; file += 1) {
        const chunks = Array.from(
          { length: 100 },
          (_, at) => toChunks(`passage ${file * 100 + at}`)[0],
        ).flatMap((chunk) => (chunk ? [chunk] : []));
        index.put(`memory/${file}.md`, toIndexedFile(), chunks);
        const vectors = chunks.map(() => makeVector(numbers, dimensions));
        // Every fifth is the one before it but for the last bits of one number: too near for 32 bits to tell.
        for (let at = 4; at < vectors.length; at += 5) {
          const twin = Float32Array.from(vectors[at - 1] ?? []);
          twin[0] = (twin[0] ?? 0) + 1e-7;
          vectors[at] = twin;
        }
        index.putVectors(
          "model",
          chunks.flatMap(({ digest }, at) => {
            const vector = vectors[at];
            return vector ? [{ digest, vector }] : [];
          }),
        );
      }
      expect(index.chunkCount).toBe(5_000);
      expect(index.missingVectors).toBe(0);
    }
    const queries = Array.from({ length: 25 }, () => makeVector(numbers, dimensions));
    const bestOf = (way: keyof typeof ways): readonly unknown[] => {
      using index = new MemoryIndex(path, { vectors: ways[way] });
      return queries.map((vector) =>
        index
          .search({ query: toKeywordQuery("***"), limit: 10, meaning: { identity: "model", vector } })
          .hits.map(({ text, vector: score }) => [text, score]),
      );
    };
    const inMemory = bestOf("memory");
    expect(inMemory.every((best) => Array.isArray(best) && best.length === 10)).toBe(true);
    expect(bestOf("native")).toEqual(inMemory);
    expect(bestOf("plain")).toEqual(inMemory);
  },
);
