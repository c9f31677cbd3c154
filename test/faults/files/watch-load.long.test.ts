import { readdirSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { FilesWatchKind, type FilesWatchResponse } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { noDeadline } from "../../../shared/rpc/deadline.ts";
import { followFiles } from "../../scenarios/files/follow-files.ts";
import { type FilesPair, startFilesPair } from "../../scenarios/files/pair.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { readManifestOf } from "../../unit/workspace/read-manifest.ts";

const patience = { timeout: 150_000 };
const app = "devbox:/app";
let pair: FilesPair;

beforeAll(async () => {
  const tellHeld = join(import.meta.dirname, "../../fixtures/programs/tell-held.mjs");
  pair = await startFilesPair({
    files: Object.fromEntries(folders().map((name) => [`${name}/old`, "old"])),
    nodeArgs: ["--import", tellHeld],
    gatewayEnv: { NODE_OPTIONS: `--import ${tellHeld}` },
  });
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

function folders(): readonly string[] {
  return Array.from({ length: 40 }, (_, index) => `d${index}`);
}

const isAvailable = ({ kind }: FilesWatchResponse): boolean => kind === FilesWatchKind.AVAILABLE;

/** What the node's agent holds open: descriptors, and folders that the kernel watches for it. */
function handlesOf(pid: number): { readonly descriptors: number; readonly watches: number } {
  const names = readdirSync(`/proc/${pid}/fd`);
  let watches = 0;
  for (const name of names) {
    try {
      if (!readlinkSync(`/proc/${pid}/fd/${name}`).includes("inotify")) continue;
      watches += readFileSync(`/proc/${pid}/fdinfo/${name}`, "utf8")
        .split("\n")
        .filter((line) => line.startsWith("inotify ")).length;
    } catch {
      // Closed since it was listed.
    }
  }
  return { descriptors: names.length, watches };
}

proves(
  "files.watch-unsubscribe",
  "who leaves a watch, or is killed, leaves nothing on the node, and a thousand leave as little",
  patience,
  async () => {
    const { node, gateway, client } = pair;
    const subscribe = async (): Promise<void> => {
      await using watching = await followFiles(client, { workspace: app });
      await watching.seen(isAvailable);
    };
    const watches = (): number => handlesOf(node.pid).watches;
    // The first one opens what the process keeps for all that follow.
    await subscribe();
    await expect.poll(watches, { timeout: 1_000 }).toBeLessThan(folders().length);
    const base = handlesOf(node.pid);
    const left = await followFiles(client, { workspace: app });
    await left.seen(isAvailable);
    expect(watches()).toBeGreaterThanOrEqual(base.watches + folders().length);
    await left[Symbol.asyncDispose]();
    await expect.poll(watches, { timeout: 1_000, interval: 20 }).toBe(base.watches);

    await using program = spawnProgram(["files", "watch", app, "--json"], { home: gateway.home });
    await program.waitForLine((line) => line.includes('"kind":"available"'), 60_000);
    expect(watches()).toBeGreaterThan(base.watches);
    await program.kill("SIGKILL");
    await expect.poll(watches, { timeout: 1_000, interval: 20 }).toBe(base.watches);

    let count = 0;
    const lane = async (): Promise<void> => {
      while (count < 1_000) {
        count += 1;
        const watching = await followFiles(client, { workspace: app });
        await watching[Symbol.asyncDispose]();
      }
    };
    await Promise.all(Array.from({ length: 20 }, lane));
    expect(count).toBe(1_000);
    await expect.poll(watches, { timeout: 1_000, interval: 20 }).toBe(base.watches);
    await expect
      .poll(() => handlesOf(node.pid).descriptors, { timeout: 60_000 })
      .toBeLessThanOrEqual(base.descriptors);
    expect(node.logs()).not.toMatch(/unhandled|uncaught|INTERNAL/i);
    await subscribe();
  },
);

const changes = 100_000;
const roundChanges = 2_000;
const mebi = 1024 * 1024;

/** A signal that aborts when it is disposed. */
function leave(): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  return { signal: controller.signal, [Symbol.dispose]: () => controller.abort() };
}

/** Bytes that a program holds once the garbage is gone, as it says itself. */
async function heldBy(program: Pick<FilesPair["node"], "signal" | "logs">): Promise<number> {
  const told = (): readonly string[] => program.logs().match(/^held \d+$/gm) ?? [];
  const before = told().length;
  program.signal("SIGUSR2");
  await expect.poll(() => told().length, { timeout: 30_000 }).toBe(before + 1);
  return Number(told().at(-1)?.split(" ")[1]);
}

proves(
  "files.watch-slow-subscriber",
  "who stops reading costs nothing that grows, holds up nobody else, and is told to compare",
  { timeout: 600_000 },
  async () => {
    const { node, gateway, client, workspace } = pair;
    await using reading = await followFiles(client, { workspace: app });
    await reading.seen(isAvailable);
    // Names as long as they are common in deep trees: what a window of the line holds is soon full.
    const at = (name: string): string => join(workspace.path, "slow", name && name.padEnd(200, "-"));
    await mkdir(at(""));
    await reading.settle();
    // Links are made and removed by turns, since nothing of them has to be read; each round is told in full to who reads
    // before the next one begins.
    const change = async (rounds: number): Promise<void> => {
      for (let round = 0; round < rounds; round += 1) {
        const from = reading.events.length;
        const isMaking = round % 2 === 0;
        for (let index = 0; index < roundChanges; index += 1) {
          if (isMaking) symlinkSync(".", at(`l${index}`));
          else rmSync(at(`l${index}`));
        }
        await reading.settle();
        const kind = isMaking ? FilesWatchKind.CREATED : FilesWatchKind.REMOVED;
        const told = reading.events.slice(from).filter((event) => event.kind === kind);
        expect(new Set(told.map(({ path }) => path)).size).toBe(roundChanges);
      }
    };
    // As many events as are kept, so that nothing grows by them any more.
    await change(6);
    using leaving = leave();
    const slow = client.watch({ workspace: app }, { signal: leaving.signal, deadlineMs: noDeadline });
    const iterator = slow[Symbol.asyncIterator]();
    const next = async (): Promise<FilesWatchResponse> => {
      const { value, done } = await iterator.next();
      if (done === true) throw new Error("the watch has ended");
      return value;
    };
    while (!isAvailable(await next()));
    const before = [await heldBy(node), await heldBy(gateway)];
    const from = reading.events.length;
    await change(changes / roundChanges);
    const after = [await heldBy(node), await heldBy(gateway)];
    const grown = after.map((bytes, index) => bytes - (before[index] ?? 0));
    for (const bytes of grown) expect(bytes).toBeLessThan(16 * mebi);
    expect(reading.events.length - from).toBeGreaterThanOrEqual(changes);
    expect(reading.events.some(({ kind }) => kind === FilesWatchKind.GAP)).toBe(false);

    let read = 0;
    while ((await next()).kind !== FilesWatchKind.GAP) read += 1;
    // What had come before is not all of it.
    expect(read).toBeLessThan(changes);
    leaving[Symbol.dispose]();
    await rm(join(workspace.path, "slow"), { recursive: true });
  },
);

proves(
  "files.watch-overflow",
  "more changes than the kernel holds lead to a gap, and the manifest after it is what the disk holds",
  patience,
  async () => {
    const { node, client, workspace } = pair;
    await using watching = await followFiles(client, { workspace: app });
    await watching.seen(isAvailable);
    node.signal("SIGSTOP");
    const frozen = systemClock.sleep(2_000);
    for (let index = 0; index < 40_000; index += 1) {
      writeFileSync(join(workspace.path, `d${index % 40}`, `f${index}`), String(index));
    }
    await frozen;
    node.signal("SIGCONT");
    await watching.seen(({ kind }) => kind === FilesWatchKind.GAP);
    const { entries, problems } = await readManifestOf(client.manifest({ workspace: app, path: "" }));
    expect(problems).toEqual({});
    const disk = readdirSync(workspace.path, { recursive: true, encoding: "utf8" });
    expect(disk.length).toBe(40_000 + 80);
    expect(Object.keys(entries).toSorted()).toEqual(disk.toSorted());
    // Whoever mirrors the tree goes on from there with the events behind the gap.
    await watching.settle();
    const mirror = new Set(Object.keys(entries));
    const gapAt = watching.events.findIndex(({ kind }) => kind === FilesWatchKind.GAP);
    for (const { kind, path, from } of watching.events.slice(gapAt + 1)) {
      if (kind === FilesWatchKind.CREATED || kind === FilesWatchKind.MOVED) mirror.add(path);
      if (kind === FilesWatchKind.REMOVED || kind === FilesWatchKind.MOVED)
        mirror.delete(kind === FilesWatchKind.MOVED ? from : path);
    }
    expect([...mirror].toSorted()).toEqual(disk.toSorted());
  },
);
