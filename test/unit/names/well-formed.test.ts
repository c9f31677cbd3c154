import { expect, test } from "vitest";
import { requireWellFormed } from "../../../shared/names/well-formed.ts";

test("half of a surrogate pair is refused wherever it stands, and whole characters are not", () => {
  const whole = { path: "a😀b", lines: ["é", { deep: "\u0000" }] };
  expect(requireWellFormed(whole, "args")).toBe(whole);
  const refused: readonly (readonly [unknown, string])[] = [
    [{ path: "a\ud800b" }, "args.path"],
    [{ list: ["ok", { text: "\udc00" }] }, "args.list.1.text"],
    [{ "\ud800": 1 }, "a key of args"],
  ];
  for (const [value, place] of refused) {
    expect(() => requireWellFormed(value, "args")).toThrow(`${place} holds half`);
  }
});
