import { expect, test } from "vitest";
import { scanSource } from "../../support/source-scan.ts";

test("finds imports of every form, types and re-exports among them", () => {
  const text = [
    'import "./side.ts";',
    'import type { A } from "./a.ts";',
    "import {\n  b,\n} from './b.ts';",
    'export * from "./c.ts";',
    'const d = await import("./d.ts");',
  ].join("\n");
  expect(scanSource(text).imports).toEqual(["./side.ts", "./a.ts", "./b.ts", "./c.ts", "./d.ts"]);
});

test("takes nothing for an import that stands in a comment or a string", () => {
  const text = `// import "./a.ts"\n/* from "./b.ts" */ const s = 'from "./c.ts"';\nconst t = \`import "./d.ts"\`;`;
  expect(scanSource(text).imports).toEqual([]);
});

test("keeps positions and blanks what is no code", () => {
  const text =
    "const a = /[\"'`]process.env/g; // process.env\nconst b = `x${`y${1}`}process.env`; f(a / b, 1 / 2);";
  const { code } = scanSource(text);
  expect(code).not.toContain("process.env");
  expect(code).toHaveLength(text.length);
  expect(code).toContain("f(a / b, 1 / 2);");
});

test("tells the exports that have a doc comment right above", () => {
  const text = [
    "/** Yes. */",
    "export async function yes(a: string): void;",
    "export async function yes(a: number): void;",
    "/* No. */",
    "export const no: number = 1;",
    "/** Of another. */",
    "const other = 1;",
    "export interface Bare {}",
    "export { other };",
    'export { x } from "./x.ts";',
  ].join("\n");
  const { exports, exportLists } = scanSource(text);
  expect(exports).toEqual([
    { kind: "function", name: "yes", documented: true },
    { kind: "const", name: "no", documented: false },
    { kind: "interface", name: "Bare", documented: false },
  ]);
  expect(exportLists).toBe(1);
});
