import { describe, expect, test } from "vitest";
import {
  findEmptyNames,
  findForbiddenDoors,
  findForbiddenImports,
  findForbiddenPackages,
  findMocks,
  findStalePackages,
  mayImport,
} from "../../support/house.ts";
import type { HouseRules, SourceFile } from "../../support/house.ts";
import { scanSource } from "../../support/source-scan.ts";

const rules: HouseRules = {
  ladders: [
    { folder: "gateway", levels: [["cli"], ["."], ["tools", "files"], ["store"]] },
    { folder: "node-agent", levels: [["cli"], ["files"]] },
    { folder: "shared", levels: [["rpc"], ["fault"]] },
  ],
  folders: { gateway: ["shared"], "node-agent": ["shared"], shared: [] },
  frontDoor: ["gateway/cli", "node-agent/cli", "shared"],
  packages: { zod: ["gateway/cli", "gateway/store"] },
  doors: { fs: ["gateway/store"], env: ["gateway/cli"], timers: ["test/support/fault-proxy"] },
  emptyWords: ["utils"],
};

function file(path: string, text: string): SourceFile {
  return { path, facts: scanSource(text) };
}

describe("who may import whom", () => {
  test.each([
    ["gateway/cli", "gateway/store", true],
    ["gateway/.", "gateway/tools", true],
    ["gateway/tools", "shared/rpc", true],
    ["main.ts", "gateway/cli", true],
    ["test", "node-agent/files", true],
    ["gateway/store", "gateway/files", false],
    ["gateway/tools", "gateway/files", false],
    ["gateway/tools", "node-agent/files", false],
    ["gateway/tools", "test", false],
    ["shared/fault", "shared/rpc", false],
    ["shared/rpc", "gateway/store", false],
    ["main.ts", "gateway/store", false],
  ])("%s, %s: %s", (from, to, allowed) => {
    expect(mayImport(from, to, rules)).toBe(allowed);
  });
});

test("an import of the other program and a room without a row are found", () => {
  const planted = [
    file("shared/rpc/a.ts", 'import type { X } from "../../gateway/store/x.ts";'),
    file("gateway/attic/a.ts", ""),
    file("gateway/files/a.ts", 'import { b } from "./b.ts";'),
  ];
  expect(findForbiddenImports(planted, rules)).toEqual([
    "shared/rpc/a.ts: shared/rpc may not import gateway/store/x.ts",
    "gateway/attic/a.ts: no row for the room gateway/attic",
  ]);
});

test("a package without a row and a row without use are found", () => {
  const planted = [
    file("gateway/files/a.ts", 'import { z } from "zod/mini";\nimport p from "node:path";'),
    file("gateway/store/a.ts", ""),
  ];
  expect(findForbiddenPackages(planted, rules)).toEqual([
    "gateway/files/a.ts: no row allows zod in gateway/files",
  ]);
  expect(findStalePackages(planted, rules)).toEqual(["zod: gateway/store does without"]);
});

test("doors are held by room, and sleeps in tests are found", () => {
  const planted = [
    file("gateway/store/a.ts", 'import fsp from "node:fs/promises";\nconst home = process.env["HOME"];'),
    file("gateway/files/a.ts", 'import { env, pid } from "node:process";\nsocket.setTimeout(1);'),
    file("test/a.test.ts", "import 'node:fs';\nawait new Promise((done) => setTimeout(done, 100));"),
    file("test/support/fault-proxy.ts", "setTimeout(send, 1);"),
  ];
  expect(findForbiddenDoors(planted, rules)).toEqual([
    "gateway/store/a.ts: no row allows env in gateway/store",
    "gateway/files/a.ts: no row allows env in gateway/files",
    "test/a.test.ts: no row allows timers in test",
  ]);
});

test("names that say nothing and mocks are found", () => {
  const planted = [
    file("gateway/files/path-utils.ts", "export class LinkManager {}\nexport const info = 1;"),
    file("shared/rpc/index.ts", "vi.mock('x'); // vi.spyOn"),
  ];
  expect(findEmptyNames(planted, rules)).toEqual([
    "gateway/files/path-utils.ts: the name utils says nothing",
    "gateway/files/path-utils.ts: the name LinkManager says nothing",
    "shared/rpc/index.ts: the name index says nothing",
  ]);
  expect(findMocks(planted)).toEqual(["shared/rpc/index.ts: vi.mock"]);
});
