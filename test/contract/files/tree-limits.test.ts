import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect } from "vitest";
import { nodeLimitDefaults } from "../../../node-agent/config/node-settings.ts";
import type { Fault } from "../../../shared/fault/fault.ts";
import { maxPathBytes } from "../../../shared/names/workspace-path.ts";
import { faultOf } from "../../support/fault-of.ts";
import { type FilesKit, openFilesKit } from "../../support/files-kit.ts";
import { proves } from "../../support/proves.ts";
import { storing } from "../../support/storing.ts";

const workspace = "devbox:/app";
const asking = "files:\n  ask: { read: [], write: [], ask: on-miss }\n";
const limits = { treeEntries: 6, treeDepth: 3 };

/** What moves, or takes along, a whole tree of the node. */
const operations: Readonly<Record<string, (client: FilesKit["client"], path: string) => Promise<unknown>>> = {
  tree: (client, path) => Array.fromAsync(client.readTree({ workspace, path })),
  manifest: (client, path) => Array.fromAsync(client.manifest({ workspace, path })),
  remove: (client, path) => client.remove({ workspace, path, recursive: true }),
};

const deepFolders = (depth: number): string => Array.from({ length: depth }, (_, at) => `d${at}`).join("/");
const longName = "n".repeat(200);
const longFolders = (depth: number): string => Array.from({ length: depth }, () => longName).join("/");

function fill(dir: string): void {
  for (const [folder, count] of [
    ["few", 6],
    ["many", 7],
  ] as const) {
    mkdirSync(join(dir, folder));
    for (let index = 0; index < count; index += 1) writeFileSync(join(dir, folder, `f${index}`), "");
  }
  mkdirSync(join(dir, "shallow", deepFolders(3)), { recursive: true });
  mkdirSync(join(dir, "deep", deepFolders(3)), { recursive: true });
  writeFileSync(join(dir, "deep", deepFolders(3), "bottom"), "");
}

/** Each beyond one limit, with what its fault says. */
const beyond: readonly (readonly [string, number, number])[] = [
  ["many", 6, 7],
  ["deep", 3, 4],
];

async function expectNobodyAsked({ approvals }: FilesKit): Promise<void> {
  expect(await approvals.list()).toEqual([]);
}

const reached = (limit: number, actual: number): Partial<Fault> => ({
  code: "LIMIT_REACHED",
  details: expect.objectContaining({ limit, actual }) as Fault["details"],
});

describe("a tree beyond the limits", () => {
  proves(
    "files.tree-limits",
    "is refused before anybody is asked, and one within them is asked about",
    async () => {
      expect(nodeLimitDefaults).toEqual({ treeEntries: 1_000_000, treeDepth: 64 });
      expect(maxPathBytes).toBe(4096);
      await using kit = await openFilesKit({ fill, limits, policy: asking });
      for (const [path, limit, actual] of beyond) {
        for (const [name, work] of Object.entries(operations))
          expect([name, await faultOf(work(kit.hasty, path))]).toMatchObject([name, reached(limit, actual)]);
      }
      const sizes = [
        [{ entries: 7n, depth: 1, pathBytes: 2n }, 6, 7],
        [{ entries: 1n, depth: 4, pathBytes: 9n }, 3, 4],
        [{ entries: 1n, depth: 1, pathBytes: 4093n }, 4096, 4097],
      ] as const;
      for (const [extent, limit, actual] of sizes) {
        const fault = await faultOf(kit.hasty.writeTree(storing("new", [], extent)));
        expect(fault).toMatchObject(reached(limit, actual));
      }
      await expectNobodyAsked(kit);
      for (const path of ["few", "shallow"]) {
        for (const work of Object.values(operations))
          expect(await faultOf(work(kit.hasty, path))).toMatchObject({ code: "APPROVAL_REQUIRED" });
      }
      const fits = storing("new", [], { entries: 6n, depth: 3, pathBytes: 4092n });
      expect(await faultOf(kit.hasty.writeTree(fits))).toMatchObject({ code: "APPROVAL_REQUIRED" });
      expect(readdirSync(kit.dir).toSorted()).toEqual(["deep", "few", "many", "shallow"]);
    },
  );

  proves("files.tree-limits", "is refused in the transfer by the same numbers", async () => {
    await using kit = await openFilesKit({ fill, limits });
    for (const [path, limit, actual] of beyond) {
      for (const [name, work] of Object.entries(operations))
        expect([name, await faultOf(work(kit.client, path))]).toMatchObject([name, reached(limit, actual)]);
    }
    const files = Array.from({ length: 7 }, (_, index) => `f${index}`);
    const stores = [
      [files, 6, 7],
      [["a/", "a/b/", "a/b/c/", "a/b/c/d"], 3, 4],
      [[`${"x".repeat(4093)}`], 4096, 4097],
    ] as const;
    for (const [paths, limit, actual] of stores)
      expect(await faultOf(kit.client.writeTree(storing("new", paths)))).toMatchObject(
        reached(limit, actual),
      );
    rmSync(join(kit.dir, "new"), { recursive: true });
    await kit.client.writeTree(storing("new", files.slice(1)));
    await kit.client.writeTree(storing("new", ["a/", "a/b/", "a/b/c"]));
    for (const path of ["few", "shallow"])
      for (const work of Object.values(operations)) await work(kit.client, path);
  });

  proves("files.tree-limits", "that grew while somebody was asked is refused in the transfer", async () => {
    await using kit = await openFilesKit({ fill, limits, policy: asking });
    for (const name of ["tree", "manifest"]) {
      const ended = faultOf(Promise.resolve(operations[name]?.(kit.client, "few")));
      const { id } = await kit.waiting();
      writeFileSync(join(kit.dir, "few/one-more"), "");
      await kit.approvals.decide(id, { allow: true, by: "tester" });
      expect([name, await ended]).toMatchObject([name, reached(6, 7)]);
      rmSync(join(kit.dir, "few/one-more"));
    }
  });

  proves("files.tree-limits", "of the shipped depth and path length is refused as well", async () => {
    await using kit = await openFilesKit({
      fill: (dir) => {
        mkdirSync(join(dir, "fits", deepFolders(64)), { recursive: true });
        mkdirSync(join(dir, "deep", deepFolders(65)), { recursive: true });
        mkdirSync(join(dir, "long", longFolders(11)), { recursive: true });
        mkdirSync(join(dir, longFolders(10)), { recursive: true });
        // No path so long can be given as one: its halves are put together.
        renameSync(join(dir, longName), join(dir, "long", longFolders(11), longName));
      },
      policy: asking,
    });
    for (const work of Object.values(operations)) {
      expect(await faultOf(work(kit.hasty, "deep"))).toMatchObject(reached(64, 65));
      expect(await faultOf(work(kit.hasty, "long"))).toMatchObject({
        code: "LIMIT_REACHED",
        details: { limit: 4096, actual: 4225 },
      });
    }
    await expectNobodyAsked(kit);
    for (const work of Object.values(operations))
      expect(await faultOf(work(kit.hasty, "fits"))).toMatchObject({ code: "APPROVAL_REQUIRED" });
  });
});
