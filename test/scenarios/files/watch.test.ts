import { execFileSync } from "node:child_process";
import { lstatSync, writeFileSync } from "node:fs";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { parse, stringify } from "yaml";
import { digestOf } from "../../../shared/content/digest.ts";
import { FaultCode } from "../../../shared/gen/fairlead/v1/fault_pb.ts";
import { FilesWatchKind, type FilesWatchResponse } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram, type Program } from "../../support/spawn-program.ts";
import { readManifestOf } from "../../unit/workspace/read-manifest.ts";
import { type FollowedFiles, followFiles } from "./follow-files.ts";
import { type FilesPair, startFilesPair } from "./pair.ts";

const patience = { timeout: 120_000 };
let pair: FilesPair;

beforeAll(async () => {
  pair = await startFilesPair({ throughProxy: true, files: { "old.txt": "old", "d/e/f": "f" } });
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

const at = (path: string): string => join(pair.workspace.path, path);

interface Line {
  readonly cursor: string;
  readonly kind: string;
  readonly path?: string;
  readonly from?: string;
  readonly entry?: { readonly digest?: string };
}

function linesOf(program: Program): readonly Line[] {
  const whole = program.stdout().split("\n").slice(0, -1);
  return whole.map((line): Line => JSON.parse(line));
}

proves(
  "files.watch-events",
  "the command prints one object a line for each file made, changed, moved and removed, with rising cursors",
  patience,
  async () => {
    await using program = spawnProgram(["files", "watch", "devbox:/app", "--json"], {
      home: pair.gateway.home,
    });
    await program.waitForLine((line) => line.includes('"kind":"available"'), 60_000);
    const told = (fits: (line: Line) => boolean): Promise<void> =>
      expect.poll(() => linesOf(program).some(fits), { timeout: 20_000 }).toBe(true);
    await writeFile(at("new.txt"), "1");
    await told(({ kind, path }) => kind === "created" && path === "new.txt");
    await writeFile(at("new.txt"), "22");
    await told(
      ({ kind, path, entry }) => kind === "changed" && path === "new.txt" && entry?.digest === digestOf("22"),
    );
    await rename(at("new.txt"), at("d/moved.txt"));
    await told(({ kind, path, from }) => kind === "moved" && path === "d/moved.txt" && from === "new.txt");
    await rm(at("d/moved.txt"));
    await told(({ kind, path }) => kind === "removed" && path === "d/moved.txt");
    const lines = linesOf(program);
    // Each of the four was told of: nothing of it is one object for several files, and nothing lacks its parts.
    for (const line of lines) expect(Object.keys(line)).toEqual(expect.arrayContaining(["cursor", "kind"]));
    for (const { kind, path } of lines) expect(path !== undefined).toBe(kind !== "available");
    const places = lines.map(({ cursor }) => cursor.split("-"));
    expect(new Set(places.map(([epoch]) => epoch)).size).toBe(1);
    const ticks = places.map(([, tick]) => Number(tick));
    for (const [index, tick] of ticks.slice(1).entries())
      expect(tick).toBeGreaterThan(ticks[index] ?? Infinity);
  },
);

const app = "devbox:/app";
const isAvailable = ({ kind }: FilesWatchResponse): boolean => kind === FilesWatchKind.AVAILABLE;

/** What a subscriber was told of the files that begin so, in its order. */
function toldOf({ events }: FollowedFiles, prefix: string): readonly FilesWatchResponse[] {
  return events.filter(({ path }) => path.startsWith(prefix));
}

/** Makes 100 files one after the other, each in one step and at a time of its own; gives their names. */
async function makeHundred(prefix: string): Promise<readonly string[]> {
  const names = Array.from({ length: 100 }, (_, index) => `${prefix}${index}`);
  const aside = `${pair.workspace.path}.aside`;
  let lastNs = 0n;
  for (const name of names) {
    await writeFile(aside, name);
    // The disk's clock ticks every few milliseconds: what falls into one tick has no order.
    while (lstatSync(aside, { bigint: true }).ctimeNs <= lastNs) writeFileSync(aside, name);
    await rename(aside, at(name));
    lastNs = lstatSync(at(name), { bigint: true }).ctimeNs;
  }
  return names;
}

async function isReachable(): Promise<boolean> {
  return pair.client.stat({ workspace: app, path: "" }).then(
    () => true,
    () => false,
  );
}

/** What the disk holds, by path, against a manifest that was taken now. */
async function expectManifestIsDisk(): Promise<void> {
  const { entries, problems } = await readManifestOf(pair.client.manifest({ workspace: app, path: "" }));
  const disk = await readdir(pair.workspace.path, { recursive: true });
  expect([Object.keys(entries).toSorted(), problems]).toEqual([disk.toSorted(), {}]);
  expect(entries["old.txt"]).toBe(digestOf("old"));
}

proves(
  "files.watch-since-cursor",
  "who returns with a cursor gets each change once and in order, also after a cut; one too old or foreign gets a gap",
  patience,
  async () => {
    const first = await followFiles(pair.client, { workspace: app });
    await first.seen(isAvailable);
    await first[Symbol.asyncDispose]();
    const names = await makeHundred("left-");
    const back = await followFiles(pair.client, { workspace: app, since: first.lastCursor() });
    await back.seen(isAvailable);
    await back.settle();
    expect(toldOf(back, "left-").map(({ path }) => path)).toEqual(names);
    expect(back.events.some(({ kind }) => kind === FilesWatchKind.GAP)).toBe(false);

    pair.proxy?.cut();
    const cut = await makeHundred("cut-");
    await expect.poll(() => back.fault()?.code, { timeout: 40_000 }).toBe("WORKSPACE_ACCESS_UNAVAILABLE");
    await expect.poll(isReachable, { timeout: 60_000 }).toBe(true);
    const since = back.lastCursor();
    await back[Symbol.asyncDispose]();
    await using again = await followFiles(pair.client, { workspace: app, since });
    await again.seen(isAvailable);
    await again.settle();
    const told = toldOf({ ...again, events: [...back.events, ...again.events] }, "cut-");
    expect(told.map(({ path }) => path)).toEqual(cut);
    for (const { path, entry } of told) expect(entry?.digest).toBe(digestOf(path));

    // More events than are kept.
    const old = again.lastCursor();
    for (let index = 0; index < 5_001; index += 1) await writeFile(at(`many-${index}`), "");
    await again.settle();
    for (let index = 0; index < 5_001; index += 1) await rm(at(`many-${index}`));
    await again.settle();
    await using late = await followFiles(pair.client, { workspace: app, since: old });
    await late.seen(isAvailable);
    expect(late.events[0]?.kind).toBe(FilesWatchKind.GAP);
    await expectManifestIsDisk();

    await pair.node.restart();
    await expect.poll(isReachable, { timeout: 60_000 }).toBe(true);
    await using other = await followFiles(pair.client, { workspace: app, since: again.lastCursor() });
    await other.seen(isAvailable);
    expect(other.events[0]?.kind).toBe(FilesWatchKind.GAP);
    expect(other.events[0]?.cursor.split("-")[0]).not.toBe(again.lastCursor().split("-")[0]);
    await expectManifestIsDisk();
    const altered = followFiles(pair.client, { workspace: app, since: `${other.lastCursor()}0` });
    await expect(altered).rejects.toMatchObject({ code: "INVALID_ARGUMENT", details: { field: "since" } });
  },
);

proves(
  "files.watch-barrier",
  "a barrier comes after the event of what another process had written before, and says at once that there is no watch",
  patience,
  async () => {
    await using watching = await followFiles(pair.client, { workspace: app });
    await watching.seen(isAvailable);
    await writeFile(at("barrier.txt"), "round 0");
    await watching.settle();
    for (let round = 1; round <= 200; round += 1) {
      const text = `round ${round}`;
      execFileSync("/bin/sh", ["-c", `printf '%s' '${text}' > barrier.txt`], { cwd: pair.workspace.path });
      await watching.settle();
      const settled = watching.events.findLastIndex(({ kind }) => kind === FilesWatchKind.SETTLED);
      const before = watching.events.slice(0, settled).findLast(({ path }) => path === "barrier.txt");
      expect(before?.entry?.digest).toBe(digestOf(text));
      expect(before?.kind).toBe(FilesWatchKind.CHANGED);
    }
    await rename(pair.workspace.path, `${pair.workspace.path}.away`);
    await watching.seen(({ kind }) => kind === FilesWatchKind.UNAVAILABLE);
    const { cursor, fault } = await pair.client.barrier({ workspace: app, token: "away" });
    expect([cursor, fault?.code]).toEqual(["", FaultCode.NOT_FOUND]);
    const available = watching.events.filter(isAvailable).length;
    await rename(`${pair.workspace.path}.away`, pair.workspace.path);
    await expect
      .poll(() => watching.events.filter(isAvailable).length, { timeout: 20_000 })
      .toBe(available + 1);
    await watching.settle();
  },
);

/** Sets the deny globs of the export in the node's configuration file, which the node follows. */
async function deny(globs: readonly string[]): Promise<void> {
  const file = join(pair.node.home, "node", "config.yaml");
  const config = parse(await readFile(file, "utf8"));
  config.workspaces[0].deny = globs;
  await writeFile(file, stringify(config));
}

let round = 0;

/** A file that is there at once with its content, so that it is told of once. */
async function makeWhole(path: string): Promise<void> {
  const staged = join(pair.gateway.home, "staged");
  await writeFile(staged, path);
  await rename(staged, at(path));
}

proves(
  "files.watch-permission-change",
  "a path that a policy closes or opens is told of among the changes of content, in the order in which it took effect",
  patience,
  async () => {
    await deny([]);
    round += 1;
    const [first, second, third] = [1, 2, 3].map((number) => `p${round}-${number}`) as [
      string,
      string,
      string,
    ];
    await using watching = await followFiles(pair.client, { workspace: app });
    await watching.seen(isAvailable);
    const told = async (kind: FilesWatchKind, path: string): Promise<void> =>
      watching.seen((event) => event.kind === kind && event.path === path);
    await makeWhole(first);
    await told(FilesWatchKind.CREATED, first);
    await deny(["d/**"]);
    await told(FilesWatchKind.WITHDRAWN, "d/e/f");
    await writeFile(at("d/e/f"), "hidden");
    await makeWhole(second);
    await told(FilesWatchKind.CREATED, second);
    await deny([]);
    await told(FilesWatchKind.PERMITTED, "d/e/f");
    await makeWhole(third);
    await told(FilesWatchKind.CREATED, third);
    const about = [first, second, third, "d/e/f"];
    const events = watching.events.filter(({ path }) => about.includes(path));
    expect(events.map(({ kind, path }) => [kind, path])).toEqual([
      [FilesWatchKind.CREATED, first],
      [FilesWatchKind.WITHDRAWN, "d/e/f"],
      [FilesWatchKind.CREATED, second],
      [FilesWatchKind.PERMITTED, "d/e/f"],
      [FilesWatchKind.CREATED, third],
    ]);
    expect(events[3]?.entry?.digest).toBe(digestOf("hidden"));
    const ticks = events.map(({ cursor }) => Number(cursor.split("-")[1]));
    expect(ticks).toEqual(ticks.toSorted((a, b) => a - b));
    expect(new Set(ticks).size).toBe(ticks.length);
  },
);
