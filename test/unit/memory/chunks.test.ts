import fc from "fast-check";
import { expect, test } from "vitest";
import { maxChunkLength, maxOverlapLength, splitLines, toChunks } from "../../../gateway/memory/chunks.ts";
import { proves } from "../../support/proves.ts";

const lone = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/;

/** Texts of lines short and long, with characters of two units among them. */
const anyText = fc
  .array(
    fc.oneof(
      fc.string({ maxLength: 60 }),
      fc.string({ unit: "grapheme", maxLength: 40 }),
      fc.integer({ min: 100, max: 5000 }).map((length) => "x".repeat(length)),
      fc.integer({ min: 700, max: 2600 }).map((length) => `a${"😀".repeat(length)}`),
      fc.constant(""),
    ),
    { maxLength: 60 },
  )
  .chain((lines) =>
    fc
      .constantFrom("\n", "\r\n")
      .map((end) => lines.map((line) => line.replaceAll(/[\r\n]/g, " ")).join(end)),
  );

proves(
  "memory.chunks",
  "chunks are bounded, overlap a little, cover every line under its number, and repeat for equal text",
  () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const lines = splitLines(text);
        const chunks = toChunks(text);
        expect(toChunks(text)).toEqual(chunks);
        const covered = new Set<number>();
        for (const [index, chunk] of chunks.entries()) {
          expect(chunk.text.length).toBeLessThanOrEqual(maxChunkLength);
          expect(lone.test(chunk.text)).toBe(
            lone.test(lines.slice(chunk.firstLine - 1, chunk.lastLine).join("\n")) && lone.test(chunk.text),
          );
          expect(chunk.firstLine).toBeGreaterThanOrEqual(1);
          for (let line = chunk.firstLine; line <= chunk.lastLine; line += 1) covered.add(line);
          const whole = lines.slice(chunk.firstLine - 1, chunk.lastLine).join("\n");
          // What a chunk holds stands in its lines; only a line longer than a chunk is cut.
          expect(whole.includes(chunk.text)).toBe(true);
          const before = chunks[index - 1];
          if (before) expect(overlapOf(before, chunk, lines)).toBeLessThanOrEqual(maxOverlapLength);
        }
        expect(covered.size).toBe(lines.length);
        expect(joinAll(chunks, lines)).toBe(true);
      }),
      { numRuns: 300 },
    );
    expect(maxChunkLength).toBe(400 * 4);
    expect(maxOverlapLength).toBe(80 * 4);
  },
);

type Chunk = ReturnType<typeof toChunks>[number];

/** Characters of whole lines that two chunks share. */
function overlapOf(before: Chunk, after: Chunk, lines: readonly string[]): number {
  if (after.firstLine > before.lastLine) return 0;
  const shared = lines.slice(after.firstLine - 1, before.lastLine).join("\n");
  return before.text.endsWith(shared) && after.text.startsWith(shared) ? shared.length : 0;
}

/** Whether every character of a line longer than a chunk is in some chunk of it. */
function joinAll(chunks: readonly Chunk[], lines: readonly string[]): boolean {
  return lines.every((line, index) => {
    if (line.length <= maxChunkLength)
      return chunks.some(
        (chunk) => chunk.firstLine <= index + 1 && chunk.lastLine >= index + 1 && chunk.text.includes(line),
      );
    let left = line;
    for (const chunk of chunks.filter((each) => each.firstLine <= index + 1 && each.lastLine >= index + 1)) {
      const taken = chunk.text.split("\n").find((part) => part !== "" && left.startsWith(part));
      if (taken !== undefined) left = left.slice(taken.length);
    }
    return left === "";
  });
}

test("an empty text has no chunk, and the end of the last line begins no further one", () => {
  expect(toChunks("")).toEqual([]);
  expect(toChunks("a\n")).toMatchObject([{ firstLine: 1, lastLine: 1, text: "a" }]);
  expect(toChunks("a\n\n")).toMatchObject([{ firstLine: 1, lastLine: 2, text: "a\n" }]);
  expect(toChunks("a\r\nb")).toMatchObject([{ firstLine: 1, lastLine: 2, text: "a\nb" }]);
});

const paragraph = (name: string, words: number): string =>
  Array.from({ length: words }, (_, at) => `${name}${at}`).join(" ");

test("a chunk begins at a heading once the one before it is long enough, and knows the headings over it", () => {
  const text = [
    "# Device",
    "",
    paragraph("intro", 80),
    "",
    "## Timing ##",
    "",
    "```sh",
    "# no heading",
    "```",
    paragraph("timing", 80),
    "### Settle",
    "short",
    "# Other",
    paragraph("other", 80),
  ].join("\n");
  const chunks = toChunks(text);
  expect(chunks.map(({ firstLine, lastLine, heading }) => [firstLine, lastLine, heading])).toEqual([
    [1, 4, "Device"],
    [5, 10, "Device > Timing"],
    // What is short goes on with the section after it.
    [11, 14, "Device > Timing > Settle"],
  ]);
  expect(new Set(chunks.map(({ digest }) => digest)).size).toBe(chunks.length);
});

test("an edit of one paragraph changes the chunks around it and leaves the others as they are", () => {
  const sections = (edited: string): string =>
    Array.from(
      { length: 30 },
      (_, at) =>
        `## Section ${at}\n\n${at === 11 ? edited : ""}${paragraph(`s${at}w`, 90)}\n\n${paragraph(`t${at}w`, 90)}\n`,
    ).join("\n");
  const digestsOf = (text: string): readonly string[] => toChunks(text).map(({ digest }) => digest);
  const before = new Set(digestsOf(sections("")));
  const added = digestsOf(sections("one sentence more. ")).filter((digest) => !before.has(digest));
  expect(before.size).toBeGreaterThanOrEqual(30);
  expect(added.length).toBeGreaterThanOrEqual(1);
  expect(added.length).toBeLessThanOrEqual(2);
});
