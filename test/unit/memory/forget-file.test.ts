import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { defaultChunkSize, toChunks } from "../../../gateway/memory/chunks.ts";
import { createIndexHost } from "../../../gateway/memory/index-host.ts";
import { toKeywordQuery } from "../../../gateway/memory/keyword-query.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const marked = "zanzibarquux";
const vector = Float32Array.of(0.6, 0.8);

function bytesOf(vectorOf: Float32Array): Buffer {
  return Buffer.from(vectorOf.buffer, vectorOf.byteOffset, vectorOf.byteLength);
}

/** The files below `dir` that hold these bytes. */
function holders(dir: string, bytes: Buffer | string): readonly string[] {
  return readdirSync(dir).filter((name) => readFileSync(join(dir, name)).includes(bytes));
}

test("a file that is forgotten leaves neither its text nor its vector in the bytes of index and cache", async () => {
  await using folder = await makeTempFolder();
  const cache = { path: folder.join("embeddings.db"), maxEntries: 1_000 };
  const vectors = { maxMemoryBytes: 1_000_000, native: false };
  await using host = createIndexHost({ cache, identity: "model", chunkSize: defaultChunkSize, vectors });
  const index = await host.open(folder.join("index.db"));
  const put = async (path: string, text: string): Promise<void> => {
    const facts = { digest: digestOf(text), sizeBytes: text.length, modifiedMs: 0, fault: undefined };
    await index.put(path, facts, text);
  };
  const shared = "this stands in both files\n";
  for (let file = 0; file < 200; file += 1)
    await put(`memory/n${file}.md`, `note${file} of the others\n`.repeat(40));
  await put("memory/kept.md", shared);
  await put("memory/also.md", shared);
  // It was edited before: of every version nothing is to stay.
  for (let round = 0; round < 5; round += 1) {
    await put("memory/gone.md", `# ${marked} ${round}\n\n${`${marked}${round} text `.repeat(400)}\n`);
  }
  const last = await index.findMissing(10_000, []);
  await index.putVectors(
    "model",
    last.map(({ digest, files }) => ({
      digest,
      vector: files.includes("memory/gone.md") ? vector : Float32Array.of(1, 0),
    })),
  );
  expect((await index.search({ query: toKeywordQuery(marked), limit: 10 })).hits.length).toBeGreaterThan(0);
  expect(holders(folder.path, marked).length).toBeGreaterThan(0);
  expect(holders(folder.path, bytesOf(vector)).length).toBeGreaterThan(0);

  await index.forget("memory/gone.md");
  await index.forget("memory/also.md");
  expect((await index.search({ query: toKeywordQuery(marked), limit: 10 })).hits).toEqual([]);
  expect(holders(folder.path, marked)).toEqual([]);
  expect(holders(folder.path, bytesOf(vector))).toEqual([]);
  // What another file holds too is found as before, and was not embedded for nothing.
  const [kept] = (await index.search({ query: toKeywordQuery("stands both"), limit: 10 })).hits;
  expect(kept).toMatchObject({ path: "memory/kept.md", text: toChunks(shared)[0]?.text });
  expect(index.missingVectors).toBe(0);
  expect([...index.files.keys()]).toHaveLength(201);
  expect((await index.search({ query: toKeywordQuery("note7"), limit: 10 })).hits[0]?.path).toBe(
    "memory/n7.md",
  );
});
