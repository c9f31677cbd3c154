import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startFilesPair, type FilesPair } from "../../scenarios/files/pair.ts";
import type { CliResult } from "../../support/run-cli.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { canMount, mountTmpfs } from "./tmpfs.ts";

const mebi = 1024 * 1024;
const asRoot = { timeout: 240_000, skip: !canMount() };
const count = 12;
let pair: FilesPair;
let here: TempFolder;

beforeAll(async () => {
  here = await makeTempFolder();
  pair = await startFilesPair();
  for (const folder of [here.join("source"), pair.workspace.join("source")]) {
    await mkdir(folder);
    for (let at = 0; at < count; at += 1) await writeFile(join(folder, `f${at}`), newOf(at));
  }
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
  await here[Symbol.asyncDispose]();
});

const oldOf = (at: number): Buffer => Buffer.alloc(100_000, `old ${at} `);
const newOf = (at: number): Buffer => Buffer.alloc(mebi, `new ${at} `);

/** A disk of 8 MiB whose folder `target` holds small files under the names that are to come. */
async function makeSmallDisk(): Promise<TempFolder> {
  const disk = await mountTmpfs(8 * mebi);
  await chmod(disk.path, 0o777);
  await mkdir(disk.join("target"));
  for (let at = 0; at < count; at += 1) await writeFile(disk.join("target", `f${at}`), oldOf(at));
  return disk;
}

async function expectWhole(disk: TempFolder): Promise<void> {
  for (let at = 0; at < count; at += 1) {
    const found = await readFile(disk.join("target", `f${at}`));
    expect([at, found.equals(oldOf(at)) || found.equals(newOf(at))]).toEqual([at, true]);
  }
  const staged = async (): Promise<readonly string[]> =>
    (await readdir(disk.path, { recursive: true })).filter((name) => name.includes(".fairlead-"));
  await expect.poll(staged, { timeout: 60_000 }).toEqual([]);
}

function expectFull({ exitCode, stdout }: CliResult): void {
  expect([1, 7]).toContain(exitCode);
  expect(stdout).toContain('"DISK_FULL"');
}

test(
  "a tree that a disk of a node cannot hold is refused where it is full, and damages nothing",
  asRoot,
  async () => {
    await using disk = await makeSmallDisk();
    const add = ["node", "workspace", "add", "small", disk.path, "--read", "**", "--write", "**"];
    await pair.node.json(add);
    const look = async (): Promise<number | null> =>
      (await pair.files(["stat", "devbox:/small/target"])).exitCode;
    await expect.poll(look, { timeout: 30_000 }).toBe(0);
    const put = ["put", here.join("source"), "devbox:/small/target", "--if-match", "any", "--json"];
    expectFull(await pair.files(put));
    await expectWhole(disk);
    expectFull(await pair.files(["sync", "devbox:/small/synced", here.join("source"), "--push", "--json"]));
    await expectWhole(disk);
    // What needs no room still works, and makes some.
    expect((await pair.files(["rm", "devbox:/small/target/f1"])).exitCode).toBe(0);
    expect((await pair.files(["mv", "devbox:/small/target/f0", "devbox:/small/moved"])).exitCode).toBe(0);
    await pair.node.json(["node", "workspace", "rm", "small"]);
  },
);

test(
  "a tree that a disk here cannot hold is refused where it is full, and damages nothing",
  asRoot,
  async () => {
    await using disk = await makeSmallDisk();
    expectFull(await pair.files(["sync", "devbox:/app/source", disk.join("synced"), "--json"]));
    await expectWhole(disk);
    for (const name of await readdir(disk.join("synced")))
      expect((await readFile(disk.join("synced", name))).equals(newOf(Number(name.slice(1))))).toBe(true);
    expectFull(await pair.files(["get", "devbox:/app/source", disk.join("got"), "--json"]));
    await expectWhole(disk);
    expectFull(await pair.files(["get", "devbox:/app/source", disk.join("strict"), "--strict", "--json"]));
    expect(await readdir(disk.path)).not.toContain("strict");
    await expectWhole(disk);
  },
);
