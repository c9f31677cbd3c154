import { chmod, lstat, mkdir, readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runProgram } from "../faults/files/tmpfs.ts";
import { errorOf, startFilesPair, type FilesPair } from "../scenarios/files/pair.ts";
import type { CliResult } from "../support/run-cli.ts";
import { spawnProgram } from "../support/spawn-program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const patience = { timeout: 240_000 };
let pair: FilesPair;

beforeAll(async () => {
  pair = await startFilesPair();
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

const remote = (path: string): string => join(pair.workspace.path, path);

test(
  "a tree that is put again is unchanged; what differs is refused, with the option that replaces it",
  patience,
  async () => {
    await using here = await makeTempFolder();
    await mkdir(here.join("tree/deep/er"), { recursive: true });
    await writeFile(here.join("tree/deep/er/a.txt"), "a");
    await writeFile(here.join("tree/b.txt"), "b");
    await writeFile(here.join("tree/large"), Buffer.alloc(700_000, "l"));
    const put = (...more: readonly string[]): Promise<CliResult> =>
      pair.files(["put", here.join("tree"), "devbox:/app/again", ...more]);
    expect((await put("--json")).json).toMatchObject({ files: 3, unchanged: 0, failedCount: 0 });
    const again = await put();
    expect([again.exitCode, again.stderr]).toEqual([0, ""]);
    expect(again.stdout).toContain("3 files (3 unchanged)");

    await writeFile(here.join("tree/b.txt"), "new b");
    await writeFile(here.join("tree/large"), Buffer.alloc(700_000, "L"));
    const refused = await put();
    expect(refused.exitCode).toBe(7);
    expect(refused.stdout).toContain("1 file (1 unchanged)");
    expect(refused.stderr.split("\n").toSorted()).toEqual([
      "",
      "failed: b.txt: again/b.txt exists already, with other content (ALREADY_EXISTS)",
      "failed: large: again/large exists already, with other content (ALREADY_EXISTS)",
      "hint: to replace what differs, repeat with --if-match any",
    ]);
    expect(await pair.workspace.text("again/b.txt")).toBe("b");
    expect((await put("--if-match", "absent", "--json")).json).toMatchObject({ files: 0, failedCount: 3 });
    expect((await put("--if-match", "any")).exitCode).toBe(0);
    expect(await pair.workspace.text("again/b.txt")).toBe("new b");
  },
);

test("folders keep their times and modes both ways", patience, async () => {
  await using here = await makeTempFolder();
  const folders = ["top", "top/a", "top/a-b", "top/a/b"];
  for (const folder of folders) await mkdir(here.join(folder));
  await writeFile(here.join("top/a/b/file"), "content");
  await chmod(here.join("top/a-b"), 0o775);
  for (const [index, folder] of folders.entries()) {
    await utimes(here.join(folder), 1_600_000_000, 1_600_000_000.5 + index);
  }
  expect((await pair.files(["put", here.join("top"), "devbox:/app/times/top"])).exitCode).toBe(0);
  const inJobs = ["put", here.join("top"), "devbox:/app/times-in-jobs/top", "--jobs", "3", "--json"];
  expect((await pair.files(inJobs)).json).toMatchObject({ files: 1, folders: 3, failedCount: 0 });
  expect((await pair.files(["get", "devbox:/app/times/top", here.join("back/")])).exitCode).toBe(4);
  await mkdir(here.join("back"));
  expect((await pair.files(["get", "devbox:/app/times/top", here.join("back/")])).exitCode).toBe(0);
  for (const folder of folders) {
    const { mode, mtimeMs } = await lstat(here.join(folder));
    for (const at of [
      remote(`times/${folder}`),
      remote(`times-in-jobs/${folder}`),
      here.join("back", folder),
    ]) {
      const found = await lstat(at);
      expect([at, found.mtimeMs, found.mode & 0o777]).toEqual([at, mtimeMs, mode & 0o777]);
    }
  }
});

test("a get into a folder never takes the place of another source's file", patience, async () => {
  await using here = await makeTempFolder();
  await pair.workspace.write({
    "one/same.txt": "of one",
    "two/same.txt": "of two",
    "six/same.txt": "OF ONE",
  });
  const get = (from: string, ...more: readonly string[]): Promise<CliResult> =>
    pair.files(["get", `devbox:/app/${from}/same.txt`, here.path, "--json", ...more]);
  expect((await get("one")).json).toMatchObject({ files: 1, unchanged: 0, filesSent: 1 });
  expect((await get("one")).json).toMatchObject({ files: 1, unchanged: 1, filesSent: 0, filesReused: 1 });
  for (const from of ["two", "six"]) {
    const refused = await get(from);
    expect([refused.exitCode, errorOf(refused)]).toEqual([
      6,
      expect.objectContaining({ code: "ALREADY_EXISTS", hint: expect.stringContaining("--if-match any") }),
    ]);
    expect(await readFile(here.join("same.txt"), "utf8")).toBe("of one");
  }
  expect(await here.entries()).toEqual(["same.txt"]);
  // A name that the user writes is theirs.
  expect((await pair.files(["get", "devbox:/app/two/same.txt", here.join("same.txt")])).exitCode).toBe(0);
  expect(await readFile(here.join("same.txt"), "utf8")).toBe("of two");
  expect((await get("one", "--if-match", "absent")).exitCode).toBe(6);
  expect((await get("one", "--if-match", "any")).exitCode).toBe(0);
  expect(await readFile(here.join("same.txt"), "utf8")).toBe("of one");
  const { digest } = (await get("one")).json as { digest: string };
  expect((await get("two", "--if-match", digest)).exitCode).toBe(0);
  expect((await get("one", "--if-match", digest)).exitCode).toBe(6);

  // Trees alike: what is equal is as good, what differs stays and is named.
  await pair.workspace.write({
    "one/tree/x": "x",
    "one/tree/y": "y of one",
    "two/tree/x": "x",
    "two/tree/y": "y of two",
  });
  const tree = (from: string): Promise<CliResult> =>
    pair.files(["get", `devbox:/app/${from}/tree`, `${here.path}/`, "--json"]);
  expect((await tree("one")).json).toMatchObject({ files: 2, unchanged: 0 });
  const other = await tree("two");
  expect([other.exitCode, other.json]).toEqual([
    7,
    expect.objectContaining({ files: 1, unchanged: 1, failedCount: 1 }),
  ]);
  expect(await readFile(here.join("tree/y"), "utf8")).toBe("y of one");
  const onFile = await pair.files(["get", "devbox:/app/one/tree", here.join("same.txt"), "--json"]);
  expect([onFile.exitCode, errorOf(onFile).code]).toEqual([6, "ALREADY_EXISTS"]);
});

test(
  "a tree that a killed get left is taken away by the next one into that folder, a file's part is kept to go on with",
  patience,
  async () => {
    await using here = await makeTempFolder();
    await pair.workspace.write({
      "killed/a/large": Buffer.alloc(64 * 1024 * 1024, "k"),
      "killed/small": "small",
    });
    const parts = async (): Promise<string[]> =>
      (await readdir(here.path)).filter((name) => name.startsWith(".fairlead-")).toSorted();
    const start = (from: string, local: string): ReturnType<typeof spawnProgram> =>
      spawnProgram(["files", "get", `devbox:/app/killed${from}`, here.join(local)], {
        home: pair.gateway.home,
      });
    /** Stopped where it has written some of it, so that it neither goes on nor is gone. */
    const stopAt = async (program: ReturnType<typeof spawnProgram>, count: number): Promise<void> => {
      await expect.poll(async () => (await parts()).length, { timeout: 60_000, interval: 1 }).toBe(count);
      process.kill(program.pid, "SIGSTOP");
    };
    await using tree = start("", "gone-tree");
    await stopAt(tree, 1);
    await using file = start("/a/large", "gone-file");
    await stopAt(file, 2);
    const left = await parts();
    expect(left.map((name) => name.split("-")[1])).toEqual(["part", "stage"]);
    await using alive = start("", "alive");
    await stopAt(alive, 3);
    const its = (await parts()).find((name) => !left.includes(name)) ?? "";
    for (const program of [tree, file]) await program.kill("SIGKILL");
    await writeFile(here.join(".fairlead-part-mine"), "another's name");
    expect((await pair.files(["get", "devbox:/app/killed/small", here.join("small")])).exitCode).toBe(0);
    const kept: unknown = expect.stringMatching(/^\.fairlead-stage-kept-/);
    expect(await parts()).toEqual([...[its, ".fairlead-part-mine"].toSorted(), kept]);
    process.kill(alive.pid, "SIGCONT");
    expect((await alive.ended).exitCode).toBe(0);
    const again = ["get", "devbox:/app/killed/a/large", here.join("gone-file"), "--json"];
    expect((await pair.files(again)).exitCode).toBe(0);
    expect((await readdir(here.path)).toSorted()).toEqual([
      ".fairlead-part-mine",
      "alive",
      "gone-file",
      "small",
    ]);
  },
);

test("a put of what was removed meanwhile writes it anew", patience, async () => {
  await using here = await makeTempFolder();
  await writeFile(here.join("note"), "first");
  const put = (): Promise<CliResult> =>
    pair.files(["put", here.join("note"), "devbox:/app/gone/note", "--json"]);
  const { digest } = (await put()).json as { digest: string };
  await rm(remote("gone/note"));
  await writeFile(here.join("note"), "second");
  expect((await put()).exitCode).toBe(0);
  expect(await pair.workspace.text("gone/note")).toBe("second");
  // A digest that was named holds for what stands there, and nothing does.
  await rm(remote("gone/note"));
  const named = await pair.files(["put", here.join("note"), "devbox:/app/gone/note", "--if-match", digest]);
  expect(named.exitCode).toBe(6);
  expect(named.stderr).toMatch(/no longer exists \(CONFLICT\)\nhint: .*--if-match absent/);
});

test(
  "a listing shows the same entries, of a folder or of the tree, and no empty fields",
  patience,
  async () => {
    await pair.workspace.write({ "all/file": "one", "all/in/side": "two" });
    await runProgram("ln", [remote("all/file"), remote("all/second-name")]);
    await runProgram("mkfifo", [remote("all/fifo")]);
    await pair.workspace.link("all/out", "/etc/passwd");
    await pair.workspace.link("all/upwards", "../all/file");
    await pair.workspace.link("all/dangling", "nowhere");
    const list = async (...more: readonly string[]): Promise<readonly { readonly path: string }[]> => {
      const result = await pair.files(["ls", "devbox:/app/all", "--json", ...more]);
      expect([result.exitCode, result.json]).toEqual([0, expect.objectContaining({ problems: [] })]);
      expect(result.stdout).not.toContain('""');
      return (result.json as { entries: { path: string }[] }).entries;
    };
    const flat = await list();
    expect(flat.map(({ path }) => path)).toEqual(
      ["dangling", "fifo", "file", "in", "out", "second-name", "upwards"].map((name) => `all/${name}`),
    );
    const deep = await list("--recursive");
    expect(deep.filter(({ path }) => path !== "all/in/side")).toEqual(flat);
  },
);

test("jobs put files at once, and say the same as one does", patience, async () => {
  await using here = await makeTempFolder();
  await mkdir(here.join("tree/taken/in"), { recursive: true });
  for (let index = 0; index < 40; index += 1) await writeFile(here.join(`tree/small-${index}`), `${index}`);
  for (let index = 0; index < 6; index += 1) {
    await writeFile(here.join(`tree/large-${index}`), Buffer.alloc(24 * 1024 * 1024, `${index}`));
  }
  await writeFile(here.join("tree/taken/in/file"), "has no folder there");
  const put = (jobs: string): Promise<CliResult> =>
    pair.files(["put", here.join("tree"), `devbox:/app/jobs-${jobs}`, "--jobs", jobs, "--json"]);
  const seen: unknown[] = [];
  for (const jobs of ["1", "4"]) {
    await pair.workspace.write({ [`jobs-${jobs}/taken`]: "a file", [`jobs-${jobs}/small-7`]: "other" });
    const running = put(jobs);
    // Large files that have begun to arrive; small ones are staged many at a time by one job as well.
    const atOnce = async (): Promise<number> => {
      const find = ["-maxdepth", "1", "-name", ".fairlead-stage-*"];
      const found = await runProgram("find", [remote(`jobs-${jobs}`), ...find, "-size", "+300k"]);
      return found.split("\n").length - 1;
    };
    if (jobs === "4") await expect.poll(atOnce, { timeout: 60_000, interval: 1 }).toBeGreaterThan(1);
    const { exitCode, json } = await running;
    const { failed, files, folders, bytes, failedCount } = json as {
      failed: { path: string; code: string }[];
      [count: string]: unknown;
    };
    const named = failed.map(({ path, code }) => `${path} ${code}`).toSorted();
    seen.push({ exitCode, files, folders, bytes, failedCount, named });
    expect(await pair.workspace.text(`jobs-${jobs}/small-39`)).toBe("39");
    expect(await pair.workspace.bytes(`jobs-${jobs}/large-5`)).toHaveLength(24 * 1024 * 1024);
  }
  expect(seen[1]).toEqual(seen[0]);
  expect(seen[0]).toMatchObject({ exitCode: 7, files: 45, failedCount: 4 });
});

test(
  "a branch that is too deep is named and the rest is listed, page by page; a tree says where it is",
  patience,
  async () => {
    await using here = await makeTempFolder();
    const deep = Array.from({ length: 66 }, (_, index) => `d${index}`).join("/");
    await mkdir(remote(`nested/${deep}`), { recursive: true });
    await pair.workspace.write({ "nested/z": "behind it" });
    const args = ["ls", "devbox:/app/nested", "--recursive", "--json"];
    const whole = await pair.files(args);
    const { entries, problems } = whole.json as { entries: { path: string }[]; problems: object[] };
    expect([whole.exitCode, entries.length, problems.length]).toEqual([7, 65, 1]);
    expect(entries.at(-1)?.path).toBe("nested/z");
    expect(problems).toMatchObject([
      {
        path: expect.stringMatching(/d63$/),
        error: { code: "LIMIT_REACHED", hint: expect.stringContaining("limits.treeDepth") },
      },
    ]);
    const page = await pair.files([...args, "--limit", "64"]);
    const { nextCursor } = page.json as { nextCursor: string };
    expect(page.json).toMatchObject({ problems: [{ error: { code: "LIMIT_REACHED" } }] });
    const rest = await pair.files([...args, "--limit", "1", "--cursor", nextCursor]);
    expect(rest.json).toMatchObject({ entries: [{ path: "nested/z" }], problems: [], nextCursor: null });

    const got = await pair.files(["get", "devbox:/app/nested", here.join("nested")]);
    expect(got.stderr).toMatch(/deep at nested\/.*d63 \(LIMIT_REACHED\)\nhint: .*limits\.treeDepth/);
    const archive = await pair.files(["get", "devbox:/app/nested", here.join("nested.tar")]);
    expect([archive.exitCode, archive.stderr]).toEqual([1, expect.stringContaining("(LIMIT_REACHED)")]);
    expect(await here.entries()).toEqual([]);
  },
);
