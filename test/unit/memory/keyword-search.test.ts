import fc from "fast-check";
import { expect, test } from "vitest";
import { type Chunk, toChunks } from "../../../gateway/memory/chunks.ts";
import { toKeywordQuery } from "../../../gateway/memory/keyword-query.ts";
import { MemoryIndex } from "../../../gateway/memory/memory-index.ts";
import { toIndexedFile } from "../../support/indexed-file.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const file = toIndexedFile({ digest: `sha256:${"0".repeat(64)}` });
const chunk = (text: string): Chunk => {
  const [only] = toChunks(text);
  if (!only) throw new Error("the text is empty");
  return only;
};

proves(
  "memory.keyword-search",
  "all words come before some of them, and no text is a syntax error",
  async () => {
    await using folder = await makeTempFolder();
    using index = new MemoryIndex(folder.join("index.db"));
    index.put("some-a.md", file, [chunk("settle settle settle settle")]);
    index.put("some-b.md", file, [chunk("a period of rest")]);
    index.put("all.md", file, [
      chunk(
        "so long that the words settle and period are few among the many others that stand here beside them",
      ),
    ]);
    index.put("none.md", file, [chunk("nothing of it")]);
    const search = (text: string): readonly { readonly path: string; readonly score: number }[] =>
      index.search({ query: toKeywordQuery(text), limit: 10 }).hits;

    const hits = search("settle period");
    expect(hits.map(({ path }) => path)).toEqual([
      "all.md",
      expect.stringMatching(/^some-/),
      expect.stringMatching(/^some-/),
    ]);
    expect(hits[0]?.score).toBeGreaterThan(0.5);
    for (const hit of hits.slice(1)) expect(hit.score).toBeLessThanOrEqual(0.5);
    for (const hit of hits) expect(hit.score).toBeLessThanOrEqual(1);

    expect(search("SETTLE, period!").map(({ path }) => path)).toEqual(hits.map(({ path }) => path));
    expect(search("sèttle")).toHaveLength(2);
    const signs = [
      '"',
      "*",
      "-",
      "NEAR",
      "NEAR(",
      "(",
      "a AND",
      "OR",
      "NOT x",
      "text:",
      "settle*",
      '"settle',
      "^x",
      "settle + period",
      "{a b}: c",
      "\0settle",
      "settle\0",
      "%",
      "'; DROP TABLE files; --",
    ];
    for (const text of signs) expect(() => search(text), text).not.toThrow();
    expect(search('*** --- ""')).toEqual([]);
    expect(search("settle NEAR(period").map(({ path }) => path)).toContain("all.md");
    fc.assert(
      fc.property(fc.string({ unit: "binary", minLength: 1, maxLength: 80 }), (text) => {
        if (text.trim() === "") return;
        search(text);
      }),
      { numRuns: 2000 },
    );
  },
);

test("an empty query and one that is too long are refused with the field", () => {
  for (const text of [
    "",
    "  \n",
    "x".repeat(1025),
    Array.from({ length: 33 }, (_, index) => `w${index}`).join(" "),
  ]) {
    expect(() => toKeywordQuery(text)).toThrow(
      expect.objectContaining({
        code: "INVALID_ARGUMENT",
        details: expect.objectContaining({ field: "query" }),
      }),
    );
  }
});
