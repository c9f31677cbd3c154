import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "vitest";
import { FilesWatchKind, type FilesWatchResponse } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { followFiles } from "../../scenarios/files/follow-files.ts";
import { startFilesPair } from "../../scenarios/files/pair.ts";
import { readManifestOf } from "../../unit/workspace/read-manifest.ts";
import { median } from "../support/report.ts";

const fileCount = 100_000;
const burst = 40_000;
const writes = 200;
const app = "devbox:/app";
const patience = { timeout: 300_000, interval: 100 };
const peerFile = join(import.meta.dirname, "../../fixtures/programs/chokidar-watch.mjs");
const isAvailable = ({ kind }: FilesWatchResponse): boolean => kind === FilesWatchKind.AVAILABLE;

interface Said {
  readonly event: string;
  readonly ms?: number;
  readonly count?: number;
}

interface Peer extends AsyncDisposable {
  readonly readyMs: number;
  /** Runs `work`, and gives how long it took from then on until the next change was told, in milliseconds. */
  timeChange(work: () => void): Promise<number>;
  /** Files that it was told of as new so far. */
  created(): Promise<number>;
}

/** chokidar in a process of its own, once it says that it is ready. */
async function startPeer(folder: string): Promise<Peer> {
  const child = spawn(process.execPath, [peerFile, folder], { stdio: ["pipe", "pipe", "inherit"] });
  const ended = once(child, "close");
  const waiting = new Map<string, (said: Said) => void>();
  createInterface({ input: child.stdout }).on("line", (line) => {
    const said = JSON.parse(line) as Said;
    waiting.get(said.event)?.(said);
    waiting.delete(said.event);
  });
  const next = (event: string): Promise<Said> => new Promise((resolve) => void waiting.set(event, resolve));
  const { ms } = await next("ready");
  return {
    readyMs: ms ?? Number.NaN,
    timeChange: async (work) => {
      const told = next("change");
      const startedAt = performance.now();
      work();
      await told;
      return performance.now() - startedAt;
    },
    created: async () => {
      const told = next("created");
      child.stdin.write("\n");
      return (await told).count ?? 0;
    },
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

/** Empty files, a hundred a folder. */
function fill(folder: string, count: number): void {
  for (let index = 0; index < count; index += 100) {
    const inner = join(folder, `d${index / 100}`);
    mkdirSync(inner, { recursive: true });
    for (let at = 0; at < 100; at += 1) writeFileSync(join(inner, `f${at}`), "");
  }
}

/** Resolves once the count has stood still for a while; gives it. */
async function still(count: () => Promise<number>): Promise<number> {
  for (let last = -1; ;) {
    const now = await count();
    if (now === last) return now;
    last = now;
    await systemClock.sleep(2_000);
  }
}

const share = (values: readonly number[], part: number): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length * part)] ?? Number.NaN;

test("a watch of 100,000 files is ready sooner than chokidar, and says so where a burst was more than it tells of", async () => {
  await using pair = await startFilesPair();
  const { client, workspace } = pair;
  fill(workspace.path, fileCount);

  const startedAt = performance.now();
  await using watching = await followFiles(client, { workspace: app });
  await expect.poll(() => watching.events.some(isAvailable), { ...patience, interval: 5 }).toBe(true);
  const readyMs = performance.now() - startedAt;
  const file = join(workspace.path, "d7/f7");
  const ours: number[] = [];
  for (let round = 0; round < writes; round += 1) {
    const told = watching.events.length;
    const at = performance.now();
    writeFileSync(file, String(round));
    while (watching.events.length === told) await new Promise((resolve) => void setImmediate(resolve));
    ours.push(performance.now() - at);
    await watching.settle();
  }
  await watching[Symbol.asyncDispose]();

  const theirs: number[] = [];
  let peerReadyMs: number;
  let peerMissed: number;
  {
    await using peer = await startPeer(workspace.path);
    peerReadyMs = peer.readyMs;
    for (let round = 0; round < writes; round += 1) {
      theirs.push(await peer.timeChange(() => writeFileSync(file, `again ${round}`)));
      await systemClock.sleep(5);
    }
    fill(join(workspace.path, "theirs"), burst);
    peerMissed = burst - (await still(() => peer.created()));
  }

  await using after = await followFiles(client, { workspace: app });
  await expect.poll(() => after.events.some(isAvailable), patience).toBe(true);
  fill(join(workspace.path, "ours"), burst);
  await after.settle();
  const told = new Set(
    after.events.filter(({ kind }) => kind === FilesWatchKind.CREATED).map(({ path }) => path),
  );
  const made = readdirSync(join(workspace.path, "ours"), { recursive: true, encoding: "utf8" });
  const missed = made.filter((path) => !told.has(`ours/${path}`)).length;
  const isGap = after.events.some(({ kind }) => kind === FilesWatchKind.GAP);
  const { entries } = await readManifestOf(client.manifest({ workspace: app, path: "ours" }));

  console.log(
    [
      `ready at ${fileCount} files: ${readyMs.toFixed(0)} ms, chokidar ${peerReadyMs.toFixed(0)} ms`,
      `write to event p50 ${median(ours).toFixed(1)} ms p99 ${share(ours, 0.99).toFixed(1)} ms at the gateway's client, chokidar ${median(theirs).toFixed(1)} and ${share(theirs, 0.99).toFixed(1)} ms in the process`,
      `burst of ${burst}: ${missed} not told of (gap: ${isGap}), chokidar ${peerMissed}`,
    ].join("\n"),
  );
  expect(readyMs / peerReadyMs).toBeLessThan(1);
  expect(median(ours) / median(theirs)).toBeLessThan(20);
  // What was not told of is what a gap stands for, and the manifest holds it.
  if (missed > 0) expect(isGap).toBe(true);
  expect(Object.keys(entries).length).toBe(made.length);
});
