import { expect, test } from "vitest";
import { findProofs } from "../../support/find-proofs.ts";

// Put together, so that the gate does not take this file's examples for proofs.
const proves = ["pro", "ves"].join("");

test("finds one id and several, with the line and the variant", () => {
  const text = `${proves}("a.one", "x", f);\n${proves}.fails(["a.two",\n 'a.three'], "x", f);\n${proves}.skip(\`a.four\`);`;
  expect(findProofs(text)).toEqual([
    { ids: ["a.one"], kind: "proof", line: 1 },
    { ids: ["a.two", "a.three"], kind: "fails", line: 2 },
    { ids: ["a.four"], kind: "skip", line: 4 },
  ]);
});

test("reports a call whose ids are no literals, and skips comments", () => {
  const text = `// ${proves}("a.one")\n/* ${proves}("a.two")\n */ ${proves}(id, "x", f);`;
  expect(findProofs(text)).toEqual([{ ids: [], kind: "proof", line: 3 }]);
});
