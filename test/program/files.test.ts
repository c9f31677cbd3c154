import { lstat, mkdir, readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { errorOf, startFilesPair, type FilesPair } from "../scenarios/files/pair.ts";
import { onTerminal } from "../support/on-terminal.ts";
import { proves } from "../support/proves.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const patience = { timeout: 240_000 };
let pair: FilesPair;

beforeAll(async () => {
  pair = await startFilesPair({
    files: {
      "digits.txt": "0123456789",
      "empty.txt": "",
      "tree/.hidden": "dot",
      "tree/a.txt": "a",
      "tree/deep/er/b.bin": Buffer.alloc(700_001, "b"),
      "tree/none/": "",
    },
  });
  await pair.workspace.link("tree/inside", "deep/er/b.bin");
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

/** Kind, mode, and content or target of everything below a folder. */
async function look(folder: string): Promise<string[]> {
  const found = await readdir(folder, { recursive: true, withFileTypes: true });
  const lines = found.map(async (entry) => {
    const path = join(entry.parentPath, entry.name);
    const { mode } = await lstat(path);
    const shown = `${path.slice(folder.length + 1)} ${(mode & 0o777).toString(8)}`;
    if (entry.isSymbolicLink()) return `${shown} -> ${await readlink(path)}`;
    return entry.isFile() ? `${shown} ${(await readFile(path)).toString("base64")}` : shown;
  });
  return (await Promise.all(lines)).toSorted();
}

proves("files.read-range", "a part of a file is written as it is, and nothing else", patience, async () => {
  const cases: readonly (readonly [readonly string[], string])[] = [
    [["devbox:/app/digits.txt"], "0123456789"],
    [["devbox:/app/digits.txt", "--offset", "2", "--length", "3"], "234"],
    [["devbox:/app/digits.txt", "--offset", "7", "--length", "30"], "789"],
    [["devbox:/app/digits.txt", "--offset", "10"], ""],
    [["devbox:/app/digits.txt", "--offset", "500", "--length", "5"], ""],
    [["devbox:/app/digits.txt", "--length", "0"], ""],
    [["devbox:/app/empty.txt"], ""],
  ];
  for (const [args, expected] of cases) {
    const { exitCode, stdout, stderr } = await pair.files(["cat", ...args]);
    expect([args, exitCode, stdout, stderr]).toEqual([args, 0, expected, ""]);
  }
});

proves(
  "files.tree-both-ways",
  "a tree comes and goes as it is, and is counted by kind",
  patience,
  async () => {
    await using here = await makeTempFolder();
    const got = await pair.files(["get", "devbox:/app/tree", here.join("tree"), "--json"]);
    expect(got.exitCode).toBe(0);
    expect(got.json).toMatchObject({ files: 3, folders: 3, links: 1, bytes: 700_005, failed: [] });
    const expected = await look(join(pair.workspace.path, "tree"));
    expect(await look(here.join("tree"))).toEqual(expected);
    for (const jobs of ["1", "8"]) {
      const put = await pair.files([
        "put",
        here.join("tree"),
        `devbox:/app/put${jobs}`,
        "--jobs",
        jobs,
        "--json",
      ]);
      expect(put.exitCode).toBe(0);
      expect(put.json).toMatchObject({ files: 3, folders: 3, links: 1, bytes: 700_005, failed: [] });
      expect(await look(join(pair.workspace.path, `put${jobs}`))).toEqual(expected);
    }
  },
);

proves(
  "files.put-default",
  "a put without a condition replaces what its user last read, and nothing else without asking",
  patience,
  async () => {
    await using here = await makeTempFolder();
    await writeFile(here.join("new"), "new");
    await pair.workspace.write({ "default/read": "as read", "default/never": "never read" });
    const put = (name: string): readonly string[] => ["put", here.join("new"), `devbox:/app/default/${name}`];
    expect((await pair.files(["cat", "devbox:/app/default/read"])).stdout).toBe("as read");
    await pair.workspace.write({ "default/read": "changed by another" });
    const changed = await pair.files(put("read"));
    expect(changed.exitCode).toBe(6);
    expect(changed.stderr).toMatch(/\(CONFLICT\)\nhint: .*--if-match/);
    const changedThere = await onTerminal(pair.gateway.home, put("read"), { answer: "y" });
    expect([changedThere.code, changedThere.shown.includes("[y/N]")]).toEqual([6, false]);
    expect(await pair.workspace.text("default/read")).toBe("changed by another");

    const never = await pair.files(put("never"));
    expect([never.exitCode, `${never.stdout}${never.stderr}`.includes("[y/N]")]).toEqual([6, false]);
    const refused = await onTerminal(pair.gateway.home, put("never"), { answer: "n" });
    expect([refused.code, refused.shown.includes("[y/N]")]).toEqual([6, true]);
    expect(await pair.workspace.text("default/never")).toBe("never read");
    const allowed = await onTerminal(pair.gateway.home, put("never"), { answer: "y" });
    expect([allowed.code, allowed.shown.includes("[y/N]")]).toEqual([0, true]);
    expect(await pair.workspace.text("default/never")).toBe("new");
  },
);

test("a single file lands under its own name, another name, or in a folder", patience, async () => {
  await using here = await makeTempFolder();
  await mkdir(here.join("in"));
  const from = "devbox:/app/digits.txt";
  expect((await pair.files(["get", from], { cwd: here.path })).exitCode).toBe(0);
  expect((await pair.files(["get", from, here.join("renamed")])).exitCode).toBe(0);
  expect((await pair.files(["get", from, here.join("in")])).exitCode).toBe(0);
  expect(await here.entries()).toEqual(["digits.txt", "in", "in/digits.txt", "renamed"]);
  const missing = await pair.files(["get", "devbox:/app/nothing", here.join("nothing"), "--json"]);
  expect([missing.exitCode, errorOf(missing).code]).toEqual([4, "NOT_FOUND"]);
  expect(await here.entries()).not.toContain("nothing");
});

test("a put says what must stand at its target, and is refused otherwise", patience, async () => {
  await using here = await makeTempFolder();
  await writeFile(here.join("new"), "new");
  const put = (...more: readonly string[]): ReturnType<FilesPair["files"]> =>
    pair.files(["put", here.join("new"), "devbox:/app/conditions/file", "--json", ...more]);
  const first = await put("--if-match", "absent");
  expect(first.json).toMatchObject({
    filesSent: 1,
    bytesSent: 3,
    filesReused: 0,
    bytesReused: 0,
    failed: [],
  });
  const { digest } = first.json as { digest: string };
  expect(errorOf(await put("--if-match", "absent")).code).toBe("ALREADY_EXISTS");
  expect((await put("--if-match", digest)).exitCode).toBe(0);
  const other = await put("--if-match", `sha256:${"0".repeat(64)}`);
  expect([other.exitCode, errorOf(other).code]).toEqual([6, "CONFLICT"]);
  expect(errorOf(other).details).toMatchObject({ expected: `sha256:${"0".repeat(64)}`, actual: digest });
  expect((await put("--if-match", "any")).exitCode).toBe(0);
  const wrong = await put("--if-match", "sha256:12");
  expect([wrong.exitCode, errorOf(wrong).details["field"]]).toEqual([2, "if-match"]);
});

test("what cannot be reached or asked for is said with its code and status", patience, async () => {
  const cases: readonly (readonly [readonly string[], number, string])[] = [
    [["cat", "devbox:/app/none"], 4, "NOT_FOUND"],
    [["cat", "devbox:/app/tree"], 1, "NOT_A_FILE"],
    [["ls", "devbox:/app/digits.txt"], 1, "NOT_A_DIRECTORY"],
    [["cat", "devbox:/app/../x"], 2, "PATH_INVALID"],
    [["cat", "devbox:/app//x"], 2, "PATH_INVALID"],
    [["cat", "digits.txt"], 2, "INVALID_ARGUMENT"],
    [["ls", "devbox:/other"], 4, "NOT_FOUND"],
    [["ls", "nobody:/app"], 4, "NOT_FOUND"],
    [["ls", "devbox:/app", "--limit", "0"], 2, "INVALID_ARGUMENT"],
    [["ls", "devbox:/app", "--cursor", "altered"], 2, "INVALID_ARGUMENT"],
  ];
  for (const [args, exitCode, code] of cases) {
    const result = await pair.files([...args, "--json"]);
    expect([args, result.exitCode, errorOf(result).code]).toEqual([args, exitCode, code]);
  }
});
