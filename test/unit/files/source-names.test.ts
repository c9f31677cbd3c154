import { expect, test } from "vitest";
import { parseRemote } from "../../../gateway/cli/files/remote.ts";
import { nameApart } from "../../../gateway/cli/files/source-names.ts";

const namesOf = (...paths: readonly string[]): readonly string[] =>
  nameApart(paths.map((path) => parseRemote(path))).map(({ name }) => name);

test("sources of one name get a suffix of their own address, in any order, and others keep their names", () => {
  const [x, y, z] = ["one:/app/x/report.csv", "two:/app/y/REPORT.csv", "one:/app/z/other.csv"];
  const given = namesOf(x, y, z);
  expect(given).toEqual([
    expect.stringMatching(/^report-[0-9a-f]{8}\.csv$/),
    expect.stringMatching(/^REPORT-[0-9a-f]{8}\.csv$/),
    "other.csv",
  ]);
  expect(namesOf(z, y, x)).toEqual(given.toReversed());
  expect(namesOf(x, z)).toEqual(["report.csv", "other.csv"]);
});

test("a suffix leaves a name within 255 bytes, and whole in its characters", () => {
  const long = `${"\u00e9".repeat(125)}.txt`;
  for (const name of namesOf(`one:/a/x/${long}`, `one:/a/y/${long}`)) {
    expect(Buffer.byteLength(name)).toBeLessThanOrEqual(255);
    expect(name).toMatch(/^\u00e9+-[0-9a-f]{8}\.txt$/);
  }
  for (const name of namesOf("one:/a/x/.env", "one:/a/y/.env")) expect(name).toMatch(/^\.env-[0-9a-f]{8}$/);
});
