import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { Delivery } from "../../../node-agent/workspace/shared-watch.ts";
import { followWatch } from "./follow-watch.ts";
import { exportOf, openTempExports } from "./temp-exports.ts";

test("each file that is made, changed, moved or removed is told of, in order", async () => {
  await using temp = await openTempExports((dir) => {
    mkdirSync(join(dir, "d/e"), { recursive: true });
    writeFileSync(join(dir, "d/e/f"), "f");
  });
  await using seen = followWatch(await temp.watch());
  await seen.seen("available");
  const at = (path: string): string => join(temp.dir, path);
  writeFileSync(at("a"), "1");
  await seen.settle();
  expect(seen.take()).toEqual(["created a"]);
  writeFileSync(at("a"), "2");
  await seen.settle();
  expect(seen.take()).toEqual(["changed a"]);
  renameSync(at("a"), at("d/b"));
  await seen.settle();
  expect(seen.take()).toEqual(["moved d/b"]);
  renameSync(at("d"), at("g"));
  await seen.settle();
  expect(seen.take().toSorted()).toEqual(["moved g", "moved g/b", "moved g/e", "moved g/e/f"]);
  mkdirSync(at("x/y/z"), { recursive: true });
  writeFileSync(at("x/y/z/file"), "z");
  await seen.settle();
  expect(seen.take()).toEqual(["created x", "created x/y", "created x/y/z", "created x/y/z/file"]);
  rmSync(at("g"), { recursive: true });
  await seen.settle();
  expect(seen.take().toSorted()).toEqual(["removed g", "removed g/b", "removed g/e", "removed g/e/f"]);
  const ticks = seen.events.map(({ cursor }) => Number(cursor.split("-")[1]));
  expect(ticks.slice(1).every((tick, index) => tick > (ticks[index] ?? 0))).toBe(true);
});

test("what happens after a barrier is told of when the kernel hints at it, and not by the next look", async () => {
  await using temp = await openTempExports(undefined, { scanEveryMs: 600_000 });
  await using seen = followWatch(await temp.watch());
  await seen.seen("available");
  for (const name of ["one", "two", "three"]) {
    writeFileSync(join(temp.dir, name), name);
    await expect.poll(() => seen.take(), { timeout: 10_000 }).toContain(`created ${name}`);
    await seen.settle();
  }
});

test("who comes back is told where the watch stands now, and not where it stood", async () => {
  await using temp = await openTempExports((dir) => mkdirSync(join(dir, "d")));
  const watch = await temp.watch();
  let cursor = "";
  {
    await using first = followWatch(watch);
    await first.seen("available");
    cursor = first.events[0]?.cursor.replace(/-\d+$/, "-0") ?? "";
    writeFileSync(join(temp.dir, "d/file"), "");
    await first.settle();
  }
  const kinds = (events: readonly Delivery[]): readonly string[] =>
    events.map(({ kind }) => kind).filter((kind) => kind !== "settled");
  await using again = followWatch(watch, cursor);
  await again.seen("available");
  expect(kinds(again.events)).toEqual(["created", "available"]);
  await using beside = followWatch(watch, cursor);
  await beside.seen("created");
  expect(kinds(beside.events).slice(0, 2)).toEqual(["available", "created"]);
});

test("what a policy closes and opens is told of as such", async () => {
  await using temp = await openTempExports((dir) => {
    mkdirSync(join(dir, "d/e"), { recursive: true });
    writeFileSync(join(dir, "d/e/f"), "f");
  });
  await using seen = followWatch(await temp.watch());
  await seen.seen("available");
  await temp.exports.apply([exportOf(temp.dir, { deny: ["d/**"] })]);
  await seen.seen("withdrawn");
  expect(seen.take().toSorted()).toEqual(["withdrawn d", "withdrawn d/e", "withdrawn d/e/f"]);
  writeFileSync(join(temp.dir, "d/e/g"), "g");
  await temp.exports.apply([exportOf(temp.dir)]);
  await seen.seen("permitted");
  await seen.settle();
  expect(seen.take()).toEqual(["permitted d", "permitted d/e", "permitted d/e/f", "permitted d/e/g"]);
});
