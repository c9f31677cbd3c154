import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { requirements } from "./requirements.ts";
import { findProofs } from "./support/find-proofs.ts";

const here = fileURLToPath(new URL(".", import.meta.url));
const proofs = globSync("**/*.test.ts", { cwd: here }).flatMap((file) =>
  findProofs(readFileSync(here + file, "utf8")).map((proof) => ({
    ...proof,
    at: `test/${file}:${proof.line}`,
  })),
);
const taken = new Set(requirements.map(({ id }) => id));

test("every promise taken on has a proof, or is recorded as a known failure", () => {
  const proved = new Set(proofs.filter(({ kind }) => kind !== "skip").flatMap(({ ids }) => ids));
  expect([...taken].filter((id) => !proved.has(id))).toEqual([]);
});

test("every proof names promises that were taken on, as literals", () => {
  const strays = proofs.flatMap(({ ids, at }) =>
    ids.length === 0 ? [`${at} names no id`] : ids.filter((id) => !taken.has(id)).map((id) => `${at} ${id}`),
  );
  expect(strays).toEqual([]);
});

test("a promise is taken on once, under its feature's name, with a sentence", () => {
  const ids = requirements.map(({ id }) => id);
  expect(ids.filter((id, index) => ids.indexOf(id) !== index)).toEqual([]);
  expect(ids.filter((id) => !/^[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*$/.test(id))).toEqual([]);
  expect(requirements.filter(({ says }) => !/\S \S.*\.$/s.test(says)).map(({ id }) => id)).toEqual([]);
});
