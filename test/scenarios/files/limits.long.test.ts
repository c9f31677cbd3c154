import { execFileSync } from "node:child_process";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { proves } from "../../support/proves.ts";
import type { CliResult } from "../../support/run-cli.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { errorOf, startFilesPair, type FilesPair } from "./pair.ts";
import { treeOf } from "./sync-kit.ts";

const patience = { timeout: 180_000 };
const limit = 100_001;
const limits = { treeEntries: 5, treeDepth: 2 };
let pair: FilesPair;
let here: TempFolder;

const nodeConfig = (dir: string): string =>
  `workspaces:
  - name: app
    dir: ${JSON.stringify(dir)}
    write: ["**"]
    maxFileBytes: ${limit}
limits: ${JSON.stringify(limits)}
`;

beforeAll(async () => {
  here = await makeTempFolder();
  pair = await startFilesPair({ nodeConfig });
}, 60_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
  await here[Symbol.asyncDispose]();
});

/** A folder with a text file of exactly the limit and one with a byte more. */
async function fill(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const [name, size] of [
    ["fits", limit],
    ["over", limit + 1],
  ] as const)
    await writeFile(join(folder, name), "x".repeat(size));
}

const tooLarge = {
  code: "TOO_LARGE",
  details: { limit, actual: limit + 1 },
  hint: expect.stringContaining("maxFileBytes") as string,
};

const failedOf = (result: CliResult): unknown => (result.json as { failed: unknown }).failed;

proves("files.max-file-bytes", "holds for get, put, sync and the tools, to the byte", patience, async () => {
  await fill(join(pair.workspace.path, "d"));
  await fill(here.join("local"));
  const remote = (path: string): string => `devbox:/app/${path}`;

  const got = await pair.files(["get", remote("d/fits"), here.join("got"), "--json"]);
  expect(got.json).toMatchObject({ bytesSent: limit });
  const refused = await pair.files(["get", remote("d/over"), here.join("none"), "--json"]);
  expect(errorOf(refused)).toMatchObject(tooLarge);
  const whole = await pair.files(["get", remote("d"), here.join("tree"), "--json"]);
  expect([whole.exitCode, failedOf(whole)]).toMatchObject([7, [{ path: "over", ...tooLarge }]]);
  expect(Object.keys(await treeOf(here.join("tree")))).toEqual(["fits"]);

  const put = await pair.files(["put", here.join("local/fits"), remote("put/fits"), "--json"]);
  expect(put.json).toMatchObject({ bytesSent: limit });
  const kept = await pair.files(["put", here.join("local/over"), remote("put/over"), "--json"]);
  expect(errorOf(kept)).toMatchObject(tooLarge);
  const stored = await pair.files(["put", here.join("local"), remote("put-tree"), "--json"]);
  expect([stored.exitCode, failedOf(stored)]).toMatchObject([7, [{ path: "over", ...tooLarge }]]);

  const synced = await pair.files(["sync", remote("d"), here.join("synced"), "--json"]);
  expect([synced.exitCode, synced.json]).toMatchObject([
    7,
    { bytesSent: limit, failed: [{ path: "over", ...tooLarge }] },
  ]);
  await pair.workspace.write({ "pushed/": "" });
  const pushed = await pair.files(["sync", "--push", remote("pushed"), here.join("local"), "--json"]);
  expect([pushed.exitCode, pushed.json]).toMatchObject([7, { failed: [{ path: "over", ...tooLarge }] }]);
  for (const folder of ["put", "put-tree", "pushed"])
    expect([folder, await readdir(join(pair.workspace.path, folder))]).toEqual([folder, ["fits"]]);
  expect(await readdir(here.join("synced"))).toEqual(["fits"]);
  expect((await here.entries()).filter((path) => !path.includes("/"))).toEqual([
    "got",
    "local",
    "synced",
    "tree",
  ]);

  const call = (tool: string, args: object): Promise<CliResult> =>
    pair.gateway.cli(["nodes", "call", "devbox", tool, "--args", JSON.stringify(args), "--json"]);
  expect((await call("read", { path: "d/fits", lines: 1 })).exitCode).toBe(0);
  expect(errorOf(await call("read", { path: "d/over", lines: 1 }))).toMatchObject(tooLarge);
  expect((await call("write", { path: "d/made", content: "y".repeat(limit) })).exitCode).toBe(0);
  expect(errorOf(await call("write", { path: "d/more", content: "y".repeat(limit + 1) }))).toMatchObject(
    tooLarge,
  );
  expect((await readdir(join(pair.workspace.path, "d"))).toSorted()).toEqual(["fits", "made", "over"]);
});

test(
  "a folder comes as a packed archive where its name says so, and never as a folder of that name",
  patience,
  async () => {
    await pair.workspace.write({ "arch/one": "1".repeat(50_000), "arch/sub/two": "2" });
    for (const name of ["arch.tar.gz", "arch.tgz"]) {
      const got = await pair.files(["get", "devbox:/app/arch", here.join(name), "--json"]);
      expect([got.exitCode, got.json]).toMatchObject([0, { files: 2, folders: 1, bytes: 50_001 }]);
      const packed = await readFile(here.join(name));
      expect(packed.byteLength).toBeLessThan(5_000);
      await writeFile(here.join("arch.tar"), gunzipSync(packed));
      await mkdir(here.join("unpacked"));
      execFileSync("tar", ["-xf", here.join("arch.tar"), "-C", here.join("unpacked")]);
      expect(await treeOf(here.join("unpacked"))).toEqual(await treeOf(join(pair.workspace.path, "arch")));
      for (const path of [name, "arch.tar", "unpacked"]) await rm(here.join(path), { recursive: true });
    }
    const refused = await pair.files(["get", "devbox:/app/arch", here.join("arch.zip")]);
    expect([refused.exitCode, refused.stderr]).toEqual([
      2,
      expect.stringMatching(/arch\.zip has the name.*\nhint: .*\.tgz/),
    ]);
    await writeFile(here.join("file"), "a file");
    const sync = await pair.files(["sync", "devbox:/app/arch", here.join("file")]);
    expect([sync.exitCode, sync.stderr]).toEqual([1, expect.stringContaining(here.join("file"))]);
    expect(sync.stderr).not.toContain("workspace's folder");
    await rm(here.join("file"));
  },
);

test("a watch that is interrupted ends without a word", patience, async () => {
  await using watching = spawnProgram(["files", "watch", "devbox:/app", "--json"], {
    home: pair.gateway.home,
  });
  await watching.waitForLine((line) => line.includes('"cursor"'));
  const { exitCode } = await watching.kill("SIGINT");
  expect([exitCode, watching.stdout(), watching.stderr()]).toEqual([
    130,
    expect.not.stringContaining("CANCELLED"),
    "",
  ]);
});

proves(
  "files.tree-limits",
  "a put that cannot run asks nobody, whatever the number of its streams",
  patience,
  async () => {
    const tree = here.join("limits");
    await mkdir(join(tree, "a/b"), { recursive: true });
    for (const name of ["1", "2", "3", "4"]) await writeFile(join(tree, name), name);
    await pair.setPolicy("files:\n  ask: { read: [], write: [], ask: on-miss }\n");
    const put = async (...more: readonly string[]): Promise<CliResult> =>
      await pair.files(["put", tree, "devbox:/app/limits", "--no-wait", "--json", ...more]);
    for (const more of [[], ["--jobs", "4"]])
      expect(errorOf(await put(...more))).toMatchObject({
        code: "LIMIT_REACHED",
        details: { limit: 5, actual: 6 },
        hint: expect.stringContaining("limits.treeEntries"),
      });
    await rm(join(tree, "1"));
    expect(errorOf(await put())).toMatchObject({ code: "APPROVAL_REQUIRED" });
    await rm(join(tree, "2"));
    await writeFile(join(tree, "a/b/c"), "deep");
    expect(errorOf(await put())).toMatchObject({
      code: "LIMIT_REACHED",
      details: { limit: 2, actual: 3 },
      hint: expect.stringContaining("limits.treeDepth"),
    });
    const waiting = await pair.gateway.json(["approvals", "ls"]);
    expect(JSON.stringify(waiting).match(/"state":"waiting"/g)).toHaveLength(1);
    expect(await pair.workspace.has("limits")).toBe(false);
  },
);
