import { expect, test } from "vitest";
import { admitSkills } from "../../../shared/skill-file/admit.ts";

const skill = (name: string, sizeBytes = 1): { name: string; key: string; sizeBytes: number } => ({
  name,
  key: `app/skills/${name}`,
  sizeBytes,
});
const limits = { maxSkills: 3, maxInstructionBytes: 100, maxTotalBytes: 10 };

test("the first by name are kept, in the order they came, and the others are skipped with both numbers", () => {
  const { kept, skipped } = admitSkills([skill("d"), skill("b"), skill("c"), skill("a")], limits);
  expect(kept.map(({ name }) => name)).toEqual(["b", "c", "a"]);
  expect(skipped).toMatchObject([
    { skill: { name: "d" }, fault: { code: "LIMIT_REACHED", details: { limit: 3, actual: 4 } } },
  ]);
});

test("a skill that does not fit the bytes is skipped, and smaller ones behind it are not", () => {
  const { kept, skipped } = admitSkills([skill("a", 6), skill("b", 5), skill("c", 4)], limits);
  expect(kept.map(({ name }) => name)).toEqual(["a", "c"]);
  expect(skipped).toMatchObject([
    { skill: { name: "b" }, fault: { code: "LIMIT_REACHED", details: { limit: 10, actual: 15 } } },
  ]);
});
