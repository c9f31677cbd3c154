import { globSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import * as rules from "./architecture.rules.ts";
import {
  findEmptyNames,
  findForbiddenDoors,
  findForbiddenImports,
  findForbiddenPackages,
  findMocks,
  findStalePackages,
  findUndocumented,
} from "./support/house.ts";
import type { SourceFile } from "./support/house.ts";
import { scanSource } from "./support/source-scan.ts";

const top = fileURLToPath(new URL("..", import.meta.url));
const files: SourceFile[] = globSync(["main.ts", "{gateway,node-agent,shared,test}/**/*.ts"], { cwd: top })
  .map((path) => path.replaceAll("\\", "/"))
  .toSorted()
  .map((path) => ({ path, facts: scanSource(readFileSync(top + path, "utf8")) }));
const written = files.filter(({ path }) => !/^(?:shared\/gen|test\/fixtures)\//.test(path));

test("every import goes down the ladders of the house", () => {
  expect(findForbiddenImports(files, rules)).toEqual([]);
});

test("every package is imported where a row allows it", () => {
  expect(findForbiddenPackages(files, rules)).toEqual([]);
});

test("no row allows a package to a room that does without", () => {
  expect(findStalePackages(files, rules)).toEqual([]);
});

test("files, environment, timers and processes are reached through their doors", () => {
  expect(findForbiddenDoors(files, rules)).toEqual([]);
});

test("every name says what it holds", () => {
  expect(findEmptyNames(written, rules)).toEqual([]);
});

test("every export has a doc comment", () => {
  expect(findUndocumented(written)).toEqual([]);
});

test("nothing is mocked and nobody is spied on", () => {
  expect(findMocks(files)).toEqual([]);
});
