import fc from "fast-check";
import { expect } from "vitest";
import { parseAlias } from "../../../shared/names/alias.ts";
import { proves } from "../../support/proves.ts";

/** The rule, spelt out step by step rather than as a pattern. */
function follows(text: string): boolean {
  const allowed = "abcdefghijklmnopqrstuvwxyz0123456789-".split("");
  return (
    text.length >= 1 &&
    text.length <= 32 &&
    text.split("").every((character) => allowed.includes(character)) &&
    !text.includes("--") &&
    /^[a-z]/.test(text) &&
    !text.endsWith("-")
  );
}

proves("pairing.alias-rules", "what follows the rules of an alias is one, and nothing else is", () => {
  const near = fc.string({ unit: fc.constantFrom("a", "b", "0", "9", "-"), maxLength: 34 });
  const check = (text: string): void => {
    if (follows(text)) expect(parseAlias(text)).toBe(text);
    else {
      expect(() => parseAlias(text)).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT", details: { field: "alias" } }),
      );
    }
  };
  fc.assert(fc.property(near, check), { numRuns: 2000 });
  fc.assert(fc.property(fc.string({ unit: "binary", maxLength: 40 }), check));
  for (const text of ["a", "devbox", "build-2", "a".repeat(32)]) expect(parseAlias(text)).toBe(text);
  const wrong = ["", "a".repeat(33), "Devbox", "2box", "-a", "a-", "a--b", "a_b", "a b", "é", "a\n", "a.b"];
  for (const text of wrong) check(text);
  expect(wrong.filter(follows)).toEqual([]);
});
