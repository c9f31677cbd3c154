import { readdirSync, readFileSync, utimesSync, writeFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { expireEveryMs, expireParts } from "../../../node-agent/files/parts.ts";
import { startExports } from "../../../node-agent/workspace/exports.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { partLifeMs } from "../../../shared/root/staged-name.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { openTempRoot, p } from "./temp-root.ts";

const key = "0123456789abcdef0123456789abcdef";
const keptName = `.fairlead-stage-kept-${key}`;
const begin = { sizeBytes: 5, digest: digestOf("begin") };

test("a stage that is kept is found under its key, gone on with once, and not kept when it was published", async () => {
  await using temp = await openTempRoot();
  const stage = await temp.root.stageWrite(p("file"), { part: { key } });
  await stage.write(Buffer.from("begin"));
  stage.keep(true);
  await stage.discard();
  expect(readdirSync(temp.dir)).toEqual([keptName]);
  expect((await temp.root.list(p(""))).entries).toEqual([]);
  expect(await temp.root.findPart(p("file"), { key })).toEqual(begin);
  expect(await temp.root.findPart(p("file"), { key: key.replace("0", "1") })).toBeUndefined();

  const rest = await temp.root.stageWrite(p("file"), { part: { key, resume: begin } });
  expect(rest.sizeBytes).toBe(5);
  const other = await temp.root.stageWrite(p("file"), { part: { key, resume: begin } });
  expect(other.sizeBytes).toBe(0);
  await other.discard();
  await rest.write(Buffer.from(" and end"));
  const { digest } = await rest.commit({ precondition: { kind: "any" } });
  expect(digest).toBe(digestOf("begin and end"));
  expect(readFileSync(join(temp.dir, "file"), "utf8")).toBe("begin and end");
  expect(readdirSync(temp.dir)).toEqual(["file"]);
});

test("a part that begins otherwise than it should is begun anew, and one that is dropped is not kept", async () => {
  await using temp = await openTempRoot((dir) => writeFileSync(join(dir, keptName), "Begin and more"));
  const stage = await temp.root.stageWrite(p("file"), { part: { key, resume: begin } });
  expect(stage.sizeBytes).toBe(0);
  await stage.write(Buffer.from("anew"));
  stage.keep(true);
  await temp.root.dropPart(p("file"), { key });
  stage.keep(true);
  await stage.discard();
  expect(readdirSync(temp.dir)).toEqual([]);
});

test("a folder that holds only a part is removed as an empty one", async () => {
  await using temp = await openTempRoot((dir) => {
    mkdirSync(join(dir, "folder"));
    writeFileSync(join(dir, "folder", keptName), "begin");
  });
  expect(await temp.root.remove(p("folder"))).toBe(1);
});

test("a part is kept for a day, and then removed by the agent that runs", async () => {
  expect(partLifeMs).toBe(24 * 60 * 60 * 1000);
  await using temp = await openTempRoot((dir) => writeFileSync(join(dir, keptName), "begin"));
  const settings = {
    name: "app",
    dir: temp.dir,
    read: ["**"],
    write: ["**"],
    remove: true,
    move: true,
    mkdir: true,
    deny: [],
    followSymlinks: false,
    allowHardLinks: false,
    maxFileBytes: undefined,
  };
  await using exports = await startExports([settings], {
    homeDir: join(temp.dir, "..", "no-home"),
    limits: { treeEntries: 1000, treeDepth: 10 },
  });
  const { root } = await exports.get("app");
  await root.swept;
  const clock = new ManualClock();
  const keptAt = new Date(clock.now() - partLifeMs + expireEveryMs);
  utimesSync(join(temp.dir, keptName), keptAt, keptAt);
  const ending = new AbortController();
  const running = expireParts(exports, { clock, signal: ending.signal }).catch(() => undefined);
  await clock.advance(expireEveryMs);
  expect(readdirSync(temp.dir)).toEqual([keptName]);
  await clock.advance(expireEveryMs);
  expect(readdirSync(temp.dir)).toEqual([]);
  ending.abort();
  await running;
});
