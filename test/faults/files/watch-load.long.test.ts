import { readdirSync, readFileSync, readlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { FilesWatchKind, type FilesWatchResponse } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { followFiles } from "../../scenarios/files/follow-files.ts";
import { type FilesPair, startFilesPair } from "../../scenarios/files/pair.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { readManifestOf } from "../../unit/workspace/read-manifest.ts";

const patience = { timeout: 150_000 };
const app = "devbox:/app";
let pair: FilesPair;

beforeAll(async () => {
  pair = await startFilesPair({ files: Object.fromEntries(folders().map((name) => [`${name}/old`, "old"])) });
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
  },
);
