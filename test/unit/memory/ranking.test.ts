import fc from "fast-check";
import { expect, test } from "vitest";
import { toChunks } from "../../../gateway/memory/chunks.ts";
import { isEvergreen } from "../../../gateway/memory/evergreen.ts";
import { toKeywordQuery } from "../../../gateway/memory/keyword-query.ts";
import { type IndexFound, MemoryIndex } from "../../../gateway/memory/memory-index.ts";
import { combineScores } from "../../../gateway/memory/ranking/combine-scores.ts";
import { defaultRanking, rankHits, type RankedInput } from "../../../gateway/memory/ranking/rank-hits.ts";
import { toIndexedFile } from "../../support/indexed-file.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const unit = (at: number): Float32Array =>
  Float32Array.from({ length: 4 }, (_, index) => (index === at ? 1 : 0));

proves(
  "memory.hybrid-ranking",
  "both ways count 0.7 and 0.3 where both answered, one way alone counts in full, and the order is always the same",
  async () => {
    expect(combineScores({ vector: 0.5, keyword: 0.25 })).toBeCloseTo(0.7 * 0.5 + 0.3 * 0.25, 12);
    expect(combineScores({ vector: 1, keyword: 1 })).toBe(1);
    expect(combineScores({ vector: 1, keyword: 0 })).toBeCloseTo(0.7, 12);
    expect(combineScores({ vector: 0, keyword: 1 })).toBeCloseTo(0.3, 12);
    expect(combineScores({ keyword: 1 })).toBe(1);
    expect(combineScores({ vector: 1 })).toBe(1);
    expect(combineScores({})).toBe(0);

    await using folder = await makeTempFolder();
    using index = new MemoryIndex(folder.join("index.db"));
    index.useVectors("model");
    const texts = ["settle alpha", "period beta", "settle period gamma", "nothing of it", "settle alpha"];
    for (const [at, text] of texts.entries()) index.put(`${at}.md`, toIndexedFile(), toChunks(`${text}\n`));
    const digests = new Map(texts.map((text) => [text, toChunks(text)[0]?.digest ?? ""]));
    const digestOf = (text: string): string => digests.get(text) ?? "";
    index.putVectors("model", [
      { digest: digestOf("settle alpha"), vector: unit(0) },
      { digest: digestOf("period beta"), vector: unit(1) },
      { digest: digestOf("settle period gamma"), vector: Float32Array.of(0.6, 0.8, 0, 0) },
      { digest: digestOf("nothing of it"), vector: unit(2) },
    ]);
    const query = toKeywordQuery("settle period");
    const search = (meaning?: Float32Array, identity = "model"): IndexFound =>
      index.search({ query, limit: 10, meaning: meaning && { identity, vector: meaning } });

    const both = search(unit(1));
    expect(both.byVector).toBe(true);
    for (const { keyword, vector, score } of both.hits) {
      expect(score).toBeCloseTo(0.7 * (vector ?? 0) + 0.3 * keyword, 12);
    }
    expect(both.hits.map(({ path }) => path).slice(0, 2)).toEqual(["2.md", "1.md"]);
    // A passage without any of the words is found by what it means.
    const byMeaning = search(unit(2)).hits.find(({ path }) => path === "3.md");
    expect(byMeaning).toMatchObject({ keyword: 0, vector: 1 });
    expect(byMeaning?.score).toBeCloseTo(0.7, 12);

    for (const alone of [search(), search(unit(1), "another model"), search(Float32Array.of(1, 0))]) {
      expect(alone.byVector).toBe(false);
      for (const { keyword, vector, score } of alone.hits)
        expect([vector, score]).toEqual([undefined, keyword]);
      expect(alone.hits[0]).toMatchObject({ path: "2.md" });
    }
    // One that waits for its vector is judged by its words, and those count in full.
    index.put("new.md", toIndexedFile(), toChunks("settle period of late\n"));
    const waiting = search(unit(1)).hits.find(({ path }) => path === "new.md");
    expect(waiting).toMatchObject({ vector: undefined, score: waiting?.keyword });
    index.remove("new.md");
    // Equal passages of two files stand in the order of their paths, every time.
    const equal = both.hits.filter(({ text }) => text === "settle alpha").map(({ path }) => path);
    expect(equal).toEqual(["0.md", "4.md"]);
    for (let round = 0; round < 20; round += 1) expect(search(unit(1))).toEqual(both);
  },
);

const dayMs = 86_400_000;
const nowMs = 400 * dayMs;
const input = (text: string, more: Partial<RankedInput> = {}): RankedInput => ({
  text,
  score: 0.8,
  modifiedMs: nowMs,
  isEvergreen: false,
  ...more,
});

proves(
  "memory.ranking-time-and-diversity",
  "30 days halve a score unless the file is evergreen, and what is nearly the same comes after what is different",
  () => {
    const decay = { ...defaultRanking, halfLifeDays: 30, nowMs, limit: 100 };
    const young = input("the settle period of the relay is twenty milliseconds");
    const old = {
      ...young,
      modifiedMs: nowMs - 30 * dayMs,
      text: "another passage about quite other things here",
    };
    const older = {
      ...old,
      modifiedMs: nowMs - 60 * dayMs,
      text: "words that stand in no other text of this test",
    };
    const evergreen = { ...older, isEvergreen: true, text: "it never ages whatever the day may be" };
    const [first, second, third, fourth] = rankHits([older, old, young, evergreen], decay);
    expect([first?.hit, second?.hit].toSorted((a, b) => (a?.modifiedMs ?? 0) - (b?.modifiedMs ?? 0))).toEqual(
      [evergreen, young],
    );
    expect([first?.score, second?.score]).toEqual([0.8, 0.8]);
    expect(third).toMatchObject({ hit: old, recency: 0.5, score: 0.4 });
    expect(fourth).toMatchObject({ hit: older, recency: 0.25, score: 0.2 });
    // Off by default: then age takes nothing.
    expect(defaultRanking.halfLifeDays).toBe(0);
    for (const { recency } of rankHits([older, old, young], { ...defaultRanking, nowMs, limit: 10 })) {
      expect(recency).toBe(1);
    }
    // A file that seems to be of tomorrow is of now.
    expect(rankHits([input("x", { modifiedMs: nowMs + dayMs })], decay)[0]?.recency).toBe(1);

    const near = (at: number): string =>
      `the settle period of the relay on the north side of the old hall is twenty milliseconds by rule ${at}`;
    const same = [near(1), near(2), near(3)].map((text, at) => input(text, { score: 0.9 - at / 100 }));
    const other = [input("period of rest", { score: 0.001 }), input("a settled bill", { score: 0.3 })];
    const ranked = rankHits([...same, ...other], { ...defaultRanking, nowMs, limit: 10 });
    expect(ranked.map(({ hit }) => hit.text)).toEqual([
      near(1),
      "a settled bill",
      "period of rest",
      near(2),
      near(3),
    ]);
    expect(ranked.map(({ similarity }) => similarity >= defaultRanking.sameFrom)).toEqual([
      false,
      false,
      false,
      true,
      true,
    ]);
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            text: fc.constantFrom(near(1), near(2), "a b c", "a b", "x y z", "", "x y z w v"),
            score: fc.double({ min: 0, max: 1, noNaN: true }),
            modifiedMs: fc.integer({ min: 0, max: nowMs }),
            isEvergreen: fc.boolean(),
          }),
          { maxLength: 30 },
        ),
        fc.integer({ min: 1, max: 12 }),
        (hits, limit) => {
          const found = rankHits(hits, { ...decay, limit });
          expect(found).toHaveLength(Math.min(hits.length, limit));
          expect(rankHits(hits, { ...decay, limit })).toEqual(found);
          const scores = found.map(({ score }) => score);
          expect(scores).toEqual(scores.toSorted((a, b) => b - a));
          const isSame = found.map(({ similarity }) => similarity >= decay.sameFrom);
          expect(isSame).toEqual(isSame.toSorted((a, b) => Number(a) - Number(b)));
        },
      ),
      { numRuns: 300 },
    );
  },
);

test("a file says of itself that it does not age, in its front matter and nowhere else", () => {
  expect(isEvergreen("---\nevergreen: true\n---\ntext\n")).toBe(true);
  expect(isEvergreen("---\r\ntitle: x\r\nevergreen: yes\r\n---\r\n")).toBe(true);
  expect(isEvergreen("---\nevergreen: false\n---\n")).toBe(false);
  expect(isEvergreen("text\n---\nevergreen: true\n---\n")).toBe(false);
  expect(isEvergreen("evergreen: true\n")).toBe(false);
});
