import { randomBytes } from "node:crypto";
import { chmod, mkdir, rm, symlink, truncate, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startFilesPair, type FilesPair } from "../scenarios/files/pair.ts";
import { describeTree } from "../support/describe-tree.ts";
import { hardNames } from "../support/hostile-workspace.ts";
import { makeTempFolder, type TempFolder } from "../support/temp-folder.ts";

const patience = { timeout: 240_000 };
let pair: FilesPair;
let here: TempFolder;

beforeAll(async () => {
  here = await makeTempFolder();
  pair = await startFilesPair();
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
  await here[Symbol.asyncDispose]();
});

/** A tree that has everything a tree may have and that may be carried. */
async function makeHostileTree(folder: string): Promise<void> {
  const put = async (path: string, content: string | Buffer, mode = 0o644): Promise<void> => {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content);
    await chmod(join(folder, path), mode);
  };
  for (const name of hardNames) await put(`names/${name}`, `content of ${name}`);
  for (const name of hardNames) await put(`folders/${name}/in`, `in ${name}`);
  const deep = Array.from({ length: 60 }, (_, at) => `d${at}`).join("/");
  await put(`${deep}/deepest`, "deep");
  for (let at = 0; at < 1_100; at += 1) await put(`many/f${at}`, `${at}`);
  for (const mode of [0o400, 0o444, 0o600, 0o755, 0o777])
    await put(`modes/${mode.toString(8)}`, "mode", mode);
  // Around what one message holds, what a chunk holds, and what may go on after a cut.
  for (const size of [0, 1, 4_095, 65_536, 262_144, 524_287, 524_288, 524_289, 4_194_303, 4_194_305])
    await put(`sizes/${size}`, randomBytes(size));
  await put("sizes/sparse", "");
  await truncate(join(folder, "sizes/sparse"), 9_000_000);
  await put("twins/Same", "upper");
  await put("twins/same", "lower");
  await put("times/old", "old");
  await utimes(join(folder, "times/old"), 1, 86_400.123456);
  await put("times/later", "later");
  await utimes(join(folder, "times/later"), 1, 4_102_444_800.654321);
  await mkdir(join(folder, "empty/in/empty"), { recursive: true });
  await symlink("old", join(folder, "times/link"));
  await symlink("../many", join(folder, "times/to-folder"));
  await symlink("link", join(folder, "times/to-link"));
  await symlink("../names/line\nbreak.txt", join(folder, "times/to-hard-name"));
}

test("a hostile tree is the same byte for byte after put, get and sync, both ways", patience, async () => {
  await makeHostileTree(here.join("source"));
  const wanted = await describeTree(here.join("source"));
  expect(wanted.length).toBeGreaterThan(1_200);
  const run = async (...args: readonly string[]): Promise<void> => {
    const { exitCode, stdout } = await pair.files([...args, "--json"]);
    expect([args, exitCode, stdout]).toEqual([args, 0, expect.stringContaining('"failedCount":0')]);
  };
  const holds = async (folder: string): Promise<void> => {
    expect(await describeTree(folder)).toEqual(wanted);
  };
  await run("put", here.join("source"), "devbox:/app/put");
  await holds(pair.workspace.join("put"));
  await run("put", here.join("source"), "devbox:/app/jobs", "--jobs", "4");
  await holds(pair.workspace.join("jobs"));
  await run("get", "devbox:/app/put", here.join("got"));
  await holds(here.join("got"));
  await run("sync", "devbox:/app/pushed", here.join("source"), "--push");
  await holds(pair.workspace.join("pushed"));
  await run("sync", "devbox:/app/pushed", here.join("pulled"));
  await holds(here.join("pulled"));
  // What was harmed comes back, and nothing else is touched.
  await rm(here.join("pulled/folders"), { recursive: true });
  await writeFile(here.join("source/times/old"), "another");
  await run("sync", "devbox:/app/pushed", here.join("pulled"));
  await holds(here.join("pulled"));
});
