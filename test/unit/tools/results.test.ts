import fc from "fast-check";
import { expect, test } from "vitest";
import { isFailedCommand, limitContent, limitDetails } from "../../../gateway/tools/tool-result.ts";
import { LineCutter } from "../../../node-agent/tools/line-cutter.ts";
import { fitsWildcard } from "../../../shared/core-tools/wildcard.ts";
import { OutputKeeper } from "../../../shared/process/kept-output.ts";

test("text over the limit is cut in the middle, whole characters stay, and the cut says the size", () => {
  const text = "ä€😀".repeat(20_000);
  const [part] = limitContent([{ type: "text", text }], 65_536);
  const cut = part?.type === "text" ? part.text : "";
  expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(65_536);
  expect(Buffer.byteLength(cut)).toBeGreaterThan(65_000);
  expect(cut).toContain(`${Buffer.byteLength(text)} bytes`);
  expect(cut).not.toContain("\ufffd");
  expect(limitContent([{ type: "text", text: "short" }], 65_536)).toEqual([{ type: "text", text: "short" }]);
});

test("a command has failed that said so, or that a signal or its time ended", () => {
  expect([{ exitCode: 0 }, {}, { timedOut: false }].map(isFailedCommand)).toEqual([false, false, false]);
  const failed = [{ exitCode: 7 }, { signal: "SIGKILL", timedOut: false }, { timedOut: true, exitCode: 0 }];
  expect(failed.map(isFailedCommand)).toEqual([true, true, true]);
});

test("details over the limit become a summary that says so", () => {
  const details = { exitCode: 3, path: "a", entries: Array.from({ length: 2_000 }, () => "entry") };
  const kept = limitDetails(details, 8_192);
  expect(kept).toMatchObject({
    exitCode: 3,
    path: "a",
    persistedDetailsTruncated: true,
    originalBytes: JSON.stringify(details).length,
  });
  expect(kept["entries"]).toBeUndefined();
  expect(limitDetails({ exitCode: 0 }, 8_192)).toEqual({ exitCode: 0 });
});

test("a keeper holds both ends of any stream, in any pieces", () => {
  const limits = { headBytes: 5, tailBytes: 7 };
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 20 }), (chunks) => {
      const keeper = new OutputKeeper(limits);
      for (const chunk of chunks) keeper.push(chunk);
      const all = Buffer.concat(chunks);
      const { head, tail, totalBytes, truncated } = keeper.take();
      expect(totalBytes).toBe(all.byteLength);
      expect(truncated).toBe(all.byteLength > 12);
      if (!truncated) expect(Buffer.concat([head, tail])).toEqual(all);
      else {
        expect(head).toEqual(all.subarray(0, 5));
        expect(tail).toEqual(all.subarray(all.byteLength - 7));
      }
    }),
  );
});

test("a cutter gives the lines that were asked for, however the bytes come", () => {
  fc.assert(
    fc.property(
      fc.array(fc.constantFrom("a", "bc\n", "\n", "d\r\n", "é"), { maxLength: 30 }),
      fc.integer({ min: 1, max: 8 }),
      fc.integer({ min: 1, max: 8 }),
      (pieces, from, lines) => {
        const cutter = new LineCutter({ from, lines });
        for (const piece of pieces) cutter.push(Buffer.from(piece));
        const text = pieces.join("");
        const all = text.split(/(?<=\n)/).filter((line) => line !== "");
        const wanted = all.slice(from - 1, from - 1 + lines);
        expect(cutter.take()).toEqual({
          text: wanted.join(""),
          firstLine: wanted.length === 0 ? 0 : from,
          lastLine: wanted.length === 0 ? 0 : from + wanted.length - 1,
          totalLines: all.length,
          truncated: false,
        });
      },
    ),
  );
});

test("a wildcard stands for any characters, and costs no more than the text is long", () => {
  expect(fitsWildcard("a*c", "abc")).toBe(true);
  expect(fitsWildcard("a*c", "ac")).toBe(true);
  expect(fitsWildcard("a*a", "a")).toBe(false);
  expect(fitsWildcard("*b*b*", "abcb")).toBe(true);
  expect(fitsWildcard("*ab", "aab")).toBe(true);
  expect(fitsWildcard("a*ab*b", "aabb")).toBe(true);
  fc.assert(
    fc.property(fc.stringMatching(/^[ab*]{0,6}$/), fc.stringMatching(/^[ab]{0,8}$/), (pattern, text) => {
      const regex = new RegExp(`^${pattern.replaceAll("*", ".*")}$`);
      expect(fitsWildcard(pattern, text)).toBe(regex.test(text));
    }),
  );
  const startedAt = performance.now();
  fitsWildcard("*a".repeat(500), "a".repeat(65_536) + "b");
  expect(performance.now() - startedAt).toBeLessThan(1_000);
});
