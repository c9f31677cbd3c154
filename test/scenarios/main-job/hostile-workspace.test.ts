import { chmod, lstat, readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { faultOf, listOf, memberOf } from "../../support/cli-fault.ts";
import { hardNames, type HostileWorkspace, makeHostileWorkspace } from "../../support/hostile-workspace.ts";
import { startGateway, type TestGateway } from "../../support/start-gateway.ts";
import { startNode, type TestNode } from "../../support/start-node.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

// Root may read anything: the node runs as nobody. What it cannot serve is named one by one, and the rest arrives.
const nobody = 65534;
const patience = { timeout: 120_000 };
const canBeNobody = process.platform === "linux" && process.getuid?.() === 0;

/** What stands below `bad/` and cannot be served, with its code. */
const refused: Readonly<Record<string, string>> = {
  "bad/closed": "IO_ERROR",
  "bad/dangling": "NOT_FOUND",
  "bad/etc": "PATH_ESCAPES",
  "bad/fifo": "UNSUPPORTED_FILE_TYPE",
  "bad/hard.txt": "HARDLINK_REFUSED",
  "bad/kept/root-only.txt": "IO_ERROR",
  "bad/loop": "SYMLINK_REFUSED",
  "bad/not-\\xff\\xfe": "PATH_INVALID",
  "bad/socket": "UNSUPPORTED_FILE_TYPE",
  "bad/unreadable.txt": "IO_ERROR",
  "bad/up": "PATH_ESCAPES",
};

let stack: AsyncDisposableStack;
let gateway: TestGateway;
let hostile: HostileWorkspace;
let node: TestNode;
let local: TempFolder;

beforeAll(async () => {
  stack = new AsyncDisposableStack();
  if (!canBeNobody) return;
  gateway = stack.use(await startGateway());
  hostile = stack.use(await makeHostileWorkspace(nobody));
  local = stack.use(await makeTempFolder());
  node = stack.use(
    await startNode({
      gateway,
      uid: nobody,
      profile: "full",
      workspaces: { app: `${hostile.workspace.path}:rw` },
    }),
  );
}, 120_000);

afterAll(async () => {
  await stack.disposeAsync();
}, 60_000);

function codesOf(problems: readonly unknown[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    problems.map((problem) => [
      String(memberOf(problem, "path")),
      memberOf(problem, "code") ?? memberOf(memberOf(problem, "error"), "code"),
    ]),
  );
}

test.runIf(canBeNobody)("hard names are listed and read byte for byte", patience, async () => {
  const answer = await gateway.cli(["files", "ls", "devbox:/app/names", "--json"]);
  expect(answer.exitCode).toBe(0);
  const listed = listOf(answer.json, "entries").map((entry) => memberOf(entry, "path"));
  expect(new Set(listed)).toEqual(new Set(hardNames.map((name) => `names/${name}`)));
  expect(listed).toHaveLength(hardNames.length);
  // People's output moves no cursor and makes no second line.
  const { stdout } = await gateway.cli(["files", "ls", "devbox:/app/names"]);
  expect(stdout.trimEnd().split("\n")).toHaveLength(hardNames.length);
  expect(stdout).not.toMatch(/\r|\u202e/u);
  for (const name of [hardNames[0], hardNames[3], hardNames.at(-2)]) {
    expect((await gateway.cli(["files", "cat", `devbox:/app/names/${name}`])).stdout).toBe(
      `content of ${name}`,
    );
  }
});

test.runIf(canBeNobody)(
  "a listing names what cannot be listed and lists the rest for what it is",
  patience,
  async () => {
    const all = await gateway.cli(["files", "ls", "devbox:/app", "--recursive", "--json"]);
    expect(all.exitCode).toBe(7);
    expect(codesOf(listOf(all.json, "problems"))).toMatchObject({
      "bad/closed": "IO_ERROR",
      "bad/not-\\xff\\xfe": "PATH_INVALID",
    });
    // What is there is listed for what it is; whether it is served is said when it is asked for.
    const kinds = listOf(all.json, "entries").map((entry) => [
      memberOf(entry, "path"),
      memberOf(entry, "kind"),
    ]);
    expect(Object.fromEntries(kinds)).toMatchObject({
      "bad/etc": "link",
      "bad/fifo": "other",
      "bad/hard.txt": "file",
      "bad/socket": "other",
    });
    const paths = listOf(all.json, "entries").map((entry) => memberOf(entry, "path"));
    expect(paths).toEqual(
      expect.arrayContaining([
        "good/one.txt",
        "good/empty",
        "bad/plain.txt",
        ...hardNames.map((name) => `names/${name}`),
      ]),
    );
    expect(paths.filter((path) => String(path).startsWith("bad/etc/"))).toEqual([]);
    expect(paths.filter((path) => String(path).startsWith("good/folder/"))).toEqual([]);

    const flat = await gateway.cli(["files", "ls", "devbox:/app/bad"]);
    expect(flat.exitCode).toBe(7);
    expect(flat.stdout).toContain("plain.txt");
    expect(flat.stderr).toContain("not-\\xff\\xfe");
    expect(faultOf(await gateway.cli(["files", "ls", "devbox:/app/bad/closed", "--json"]))).toMatchObject({
      exitCode: 1,
      code: "IO_ERROR",
      details: { errno: "EACCES" },
    });
  },
);

test.runIf(canBeNobody)("each entry that cannot be served is refused with its code", patience, async () => {
  const cases: readonly (readonly [string, string, number])[] = [
    ["bad/etc", "SYMLINK_REFUSED", 3],
    ["bad/etc/passwd", "SYMLINK_REFUSED", 3],
    ["good/inside", "SYMLINK_REFUSED", 3],
    ["good/folder/one.txt", "SYMLINK_REFUSED", 3],
    ["bad/hard.txt", "HARDLINK_REFUSED", 3],
    ["bad/fifo", "UNSUPPORTED_FILE_TYPE", 1],
    ["bad/socket", "UNSUPPORTED_FILE_TYPE", 1],
    ["bad/closed/secret.txt", "IO_ERROR", 1],
    ["bad/unreadable.txt", "IO_ERROR", 1],
    ["good", "NOT_A_FILE", 1],
    ["good/none.txt", "NOT_FOUND", 4],
  ];
  for (const [path, code, exitCode] of cases) {
    const startedAt = systemClock.now();
    const fault = faultOf(await gateway.cli(["files", "cat", `devbox:/app/${path}`, "--json"]));
    expect({ path, ...fault }).toMatchObject({ path, code, exitCode });
    expect(fault.message).toContain(path.split("/", 2).at(-1));
    expect(systemClock.now() - startedAt).toBeLessThan(20_000);
  }
});

test.runIf(canBeNobody)(
  "a tree arrives without what cannot be served, which is named, and the exit is 7",
  patience,
  async () => {
    const target = local.join("tree");
    const got = await gateway.cli(["files", "get", "devbox:/app", target, "--json"]);
    expect(got.exitCode).toBe(7);
    expect(codesOf(listOf(got.json, "failed"))).toEqual(refused);
    expect(got.json).toMatchObject({
      failedCount: Object.keys(refused).length,
      files: 3 + hardNames.length + 1,
      links: 2,
    });
    for (const folder of ["good", "names"])
      await expectEqualFolders(hostile.workspace.join(folder), join(target, folder));
    expect((await readdir(join(target, "bad"), { encoding: "buffer" })).map(String).toSorted()).toEqual([
      "closed",
      "kept",
      "plain.txt",
    ]);

    const strict = await gateway.cli([
      "files",
      "get",
      "devbox:/app",
      local.join("strict"),
      "--strict",
      "--json",
    ]);
    const [first = "", code] = Object.entries(refused)[0] ?? [];
    expect(faultOf(strict)).toMatchObject({ code, message: expect.stringContaining(first) });
    expect(strict.exitCode).not.toBe(0);
    expect(await readdir(local.path)).toEqual(["tree"]);
  },
);

/** Every entry of two folders, by name, kind, mode, content and, for files, time. */
async function expectEqualFolders(left: string, right: string): Promise<void> {
  const names = (await readdir(left)).toSorted();
  expect((await readdir(right)).toSorted()).toEqual(names);
  for (const name of names) {
    const [a, b] = [
      await lstat(join(left, name), { bigint: true }),
      await lstat(join(right, name), { bigint: true }),
    ];
    expect([name, b.mode]).toEqual([name, a.mode]);
    if (a.isSymbolicLink()) expect(await readlink(join(right, name))).toBe(await readlink(join(left, name)));
    else if (a.isDirectory()) await expectEqualFolders(join(left, name), join(right, name));
    else {
      expect(await readFile(join(right, name), "utf8")).toBe(await readFile(join(left, name), "utf8"));
      expect([name, b.mtimeNs / 1000n]).toEqual([name, a.mtimeNs / 1000n]);
    }
  }
}

test.runIf(canBeNobody)("writes meet the same walls, and the machine is unchanged", patience, async () => {
  await writeFile(local.join("new.txt"), "new");
  const put = async (path: string) =>
    faultOf(
      await gateway.cli([
        "files",
        "put",
        local.join("new.txt"),
        `devbox:/app/${path}`,
        "--if-match",
        "any",
        "--json",
      ]),
    );
  expect(await put("bad/etc/fairlead-test")).toMatchObject({ exitCode: 3, code: "SYMLINK_REFUSED" });
  expect(await put("good/inside")).toMatchObject({ exitCode: 3, code: "SYMLINK_REFUSED" });
  expect(await put("bad/dangling")).toMatchObject({ exitCode: 3, code: "SYMLINK_REFUSED" });
  expect(await put("bad/hard.txt")).toMatchObject({ exitCode: 3, code: "HARDLINK_REFUSED" });
  expect(await put("bad/fifo")).toMatchObject({ exitCode: 1, code: "UNSUPPORTED_FILE_TYPE" });
  expect(await put("bad/closed/new.txt")).toMatchObject({ exitCode: 1, code: "IO_ERROR" });
  expect(await readFile(hostile.outside.join("outside.txt"), "utf8")).toBe("outside");
  expect(await hostile.workspace.text("good/one.txt")).toBe("one");
  await expect(lstat("/etc/fairlead-test")).rejects.toThrow(/ENOENT/);
  expect(await hostile.outside.entries()).toEqual(["outside.txt"]);

  // A tree comes back as it went, hard names and all.
  await chmod(local.path, 0o755);
  const back = await gateway.cli(["files", "put", local.join("tree/names"), "devbox:/app/copy", "--json"]);
  expect({ exitCode: back.exitCode, json: back.json }).toMatchObject({
    exitCode: 0,
    json: { files: hardNames.length, failed: [] },
  });
  await expectEqualFolders(local.join("tree/names"), hostile.workspace.join("copy"));
  expect(node.logs()).not.toContain("INTERNAL");
});
