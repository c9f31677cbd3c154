import fc from "fast-check";
import { expect, test } from "vitest";
import { findNearest } from "../../../shared/config/nearest.ts";
import { faultFromError } from "../../../shared/fault/fault-from-error.ts";
import { safeJson, safeText, terminalText, visibleText } from "../../../shared/log/safe-text.ts";
import { createCommandInput } from "../../../shared/terminal/command-input.ts";
import { formatDuration, parseDurationMs } from "../../../shared/terminal/duration.ts";
import { parsePairs } from "../../../shared/terminal/pairs.ts";

test("control characters, escapes and direction marks are written out", () => {
  expect(visibleText("a\u001b[31mred\u0007\nb\tc\r")).toBe("a\\x1b[31mred\\x07\\nb\\tc\\r");
  expect(visibleText("x\u202egnp.exe\u200b\u2028\u009b2J")).toBe(
    "x\\u{202e}gnp.exe\\u{200b}\\u{2028}\\x9b2J",
  );
  expect(visibleText("Grüße 👋 日本")).toBe("Grüße 👋 日本");
  expect(terminalText("a\n\tb\u001b[2J")).toBe("a\n\tb\\x1b[2J");
});

test("whatever a machine says is cut to 200 characters, and no control character is left", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 600 }), (text) => {
      const shown = safeText(text);
      expect(Array.from(shown).length).toBeLessThanOrEqual(200);
      expect(shown).not.toMatch(/[\p{Cc}\p{Cs}]/u);
    }),
  );
  expect(safeText("x".repeat(200))).toBe("x".repeat(200));
  expect(safeText("x".repeat(201))).toBe(`${"x".repeat(199)}…`);
  expect(safeText("<b>\u001b</b>".repeat(2_000))).toHaveLength(200);
});

test("JSON that was made safe has the same value", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const json = safeJson(JSON.stringify(value));
      expect(JSON.parse(json)).toEqual(JSON.parse(JSON.stringify(value)));
    }),
  );
  expect(safeJson('"\u009b\u202e"')).toBe('"\\u009b\\u202e"');
});

test("durations are read with their unit, and nothing else is", () => {
  expect([parseDurationMs("90s", "ttl"), parseDurationMs("10m", "ttl")]).toEqual([90_000, 600_000]);
  expect([parseDurationMs("1.5h", "ttl"), parseDurationMs("250ms", "ttl")]).toEqual([5_400_000, 250]);
  for (const text of ["", "0s", "-5m", "10", "10 m", "1e3s", "5 minutes", "∞", "99999999999d"]) {
    expect(() => parseDurationMs(text, "ttl")).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", details: { field: "ttl", actual: text } }),
    );
  }
  expect([formatDuration(-5), formatDuration(2_500), formatDuration(7_300_000)]).toEqual([
    "0 ms",
    "2 s",
    "2 h",
  ]);
});

test("labels are K=V, once each, with at most 63 characters", () => {
  expect(parsePairs(["env=prod,os=linux", "empty="], "label")).toEqual({
    env: "prod",
    os: "linux",
    empty: "",
  });
  for (const text of [
    "env",
    "=x",
    "a=b,a=c",
    `k=${"x".repeat(64)}`,
    `${"k".repeat(64)}=v`,
    "k=\u001b",
    "__proto__=1",
  ]) {
    expect(() => parsePairs([text], "label")).toThrow(
      expect.objectContaining({
        code: "INVALID_ARGUMENT",
        details: expect.objectContaining({ field: "label" }),
      }),
    );
  }
});

test("what is empty is not taken for left out", () => {
  const input = createCommandInput({
    args: new Map<string, string | readonly string[]>([
      ["dir", ""],
      ["files", ["a", ""]],
    ]),
    options: { name: "", label: [""], ttl: "" },
  });
  const reads: readonly (() => unknown)[] = [
    () => input.argument("dir"),
    () => input.maybeArgument("dir"),
    () => input.rest("files"),
    () => input.text("name"),
    () => input.texts("label"),
    () => input.durationMs("ttl"),
  ];
  const fieldOf = (read: () => unknown): unknown => {
    try {
      return read();
    } catch (error) {
      return faultFromError(error).details["field"];
    }
  };
  expect(reads.map(fieldOf)).toEqual(["dir", "dir", "files", "name", "label", "ttl"]);
  expect(input.text("other")).toBeUndefined();
});

test("the nearest word is found, and a far one is not", () => {
  const words = ["workspaces", "nodes", "node", "sessions", "skills"];
  expect(findNearest("workspace", words)).toBe("workspaces");
  expect(findNearest("sesions", words)).toBe("sessions");
  expect(findNearest("ndoes", words)).toBe("nodes");
  expect(findNearest("banana", words)).toBeUndefined();
});
