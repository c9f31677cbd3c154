import { expect, test } from "vitest";
import { applyPlan, type SyncSides } from "../../../gateway/cli/files/sync/apply-plan.ts";
import type { Change } from "../../../gateway/cli/files/sync/plan-sync.ts";
import type { SyncEntry } from "../../../gateway/cli/files/sync/sync-entry.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import type { TreePart } from "../../../shared/tree/tree-part.ts";

function entryOf(path: string, content: string): SyncEntry {
  const kind = content === "/" ? "folder" : "file";
  return {
    path,
    kind,
    sizeBytes: 1,
    mode: 0o644,
    modifiedNs: 0n,
    content: kind === "folder" ? "" : content,
  };
}

const room = (path: string, content: string): Change => {
  const entry = entryOf(path, content);
  return { action: "remove", entry, standing: entry, makesRoom: true };
};
const made = (path: string, content: string): Change => ({ action: "create", entry: entryOf(path, content) });

interface Recorded {
  readonly sides: SyncSides;
  readonly done: readonly string[];
}

/** Sides that note what is done; those of `stays` cannot be removed. */
function record(stays: readonly string[] = []): Recorded {
  const done: string[] = [];
  const sides: SyncSides = {
    async *contents(paths) {
      for (const path of paths) done.push(`send ${path}`);
      yield { entries: [], content: new Uint8Array() };
    },
    store: async (parts: AsyncIterable<TreePart>) => {
      for await (const { entries } of parts)
        for (const { entry, copyFrom } of entries)
          done.push(copyFrom === "" ? `make ${entry?.path}` : `copy ${copyFrom} to ${entry?.path}`);
      return [];
    },
    carry: async ({ entry }) => entry.content,
    remove: async ({ path }) => {
      if (stays.includes(path)) throw new Fault("NOT_EMPTY", `${path} is not empty`);
      done.push(`remove ${path}`);
    },
  };
  return { sides, done };
}

const target = new Map(
  [entryOf("a", "old"), entryOf("x", "/"), entryOf("x/one", "1")].map((entry) => [entry.path, entry]),
);
const changes = [
  room("x/one", "1"),
  room("x", "/"),
  room("a", "old"),
  made("a", "/"),
  made("a/in", "2"),
  made("moved", "1"),
  made("x", "1"),
];

test("what makes room goes after it was copied from, and before what comes in its place", async () => {
  const { sides, done } = record();
  const applied = await applyPlan(changes, target, sides);
  expect(applied.failed).toEqual([]);
  expect(done).toEqual([
    "copy x/one to moved",
    "remove x/one",
    "remove x",
    "remove a",
    "make a",
    "send a/in",
    "send x",
  ]);
});

test("where something had to stay nothing comes in its place, and all of it is named", async () => {
  const { sides, done } = record(["x", "a"]);
  const applied = await applyPlan(changes, target, sides);
  expect(applied.failed.map(({ path, fault }) => [path, fault.code, fault.message])).toEqual([
    ["x", "NOT_EMPTY", "x is not empty"],
    ["a", "NOT_EMPTY", "a is not empty"],
    ["a/in", "NOT_EMPTY", "a is not empty"],
  ]);
  expect(done).toEqual(["copy x/one to moved", "remove x/one"]);
  expect(applied.sentFiles).toBe(0);
});
