import { execFileSync } from "node:child_process";
import { chmod, link, mkdir, readdir, readFile, rename, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { startFilesPair, type FilesPair } from "./pair.ts";
import { treeOf } from "./sync-kit.ts";

// One folder is kept inside by the kernel, the other one as on a platform without such a kernel: nothing else may differ.
const patience = { timeout: 240_000 };
const doors = ["sure", "held"] as const;
type Door = (typeof doors)[number];
let pair: FilesPair;
let here: TempFolder;

beforeAll(async () => {
  here = await makeTempFolder();
  pair = await startFilesPair({
    files: { "sure/": "", "held/": "" },
    nodeConfig: (dir) =>
      [
        "workspaces:",
        `  - { name: sure, dir: ${join(dir, "sure")}, write: ["**"] }`,
        `  - { name: held, dir: ${join(dir, "held")}, write: ["**"], containment: best_effort }`,
        "",
      ].join("\n"),
  });
  for (const door of doors) await fill(pair.workspace.join(door));
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
  await here[Symbol.asyncDispose]();
});

async function fill(folder: string): Promise<void> {
  for (const at of ["src/deep", "empty", ".ssh", "outside"])
    await mkdir(join(folder, at), { recursive: true });
  for (const at of ["a.txt", "src/b.txt", "src/deep/c.txt", ".dot", "name\nline", ".ssh/key", "two-names"])
    await writeFile(join(folder, at), `content of ${at}`);
  await writeFile(join(folder, "big"), Buffer.alloc(3 * 1024 * 1024, "big"));
  await chmod(join(folder, "src/b.txt"), 0o750);
  await utimes(join(folder, "src/b.txt"), 1_700_000_000, 1_700_000_000);
  await link(join(folder, "two-names"), join(folder, "other-name"));
  await symlink("b.txt", join(folder, "src/linked"));
  await symlink("/etc", join(folder, "src/out"));
  execFileSync("mkfifo", [join(folder, "src/fifo")]);
}

/** What a command says, without what differs between two runs, and between the names of the two workspaces. */
async function said(door: Door, args: readonly string[]): Promise<unknown> {
  const { exitCode, json } = await pair.files([...args, "--json"]);
  const text = JSON.stringify(json, (key, value: unknown) => (volatile.has(key) ? undefined : value));
  return [exitCode, text.replaceAll(`devbox:/${door}`, "DOOR").replaceAll(door, "DOOR")];
}

const volatile = new Set([
  "durationMs",
  "bytesPerSecond",
  "modifiedAt",
  "changedAt",
  "inode",
  "callId",
  "source",
  "sources",
]);

async function forBoth(run: (door: Door) => Promise<unknown>): Promise<unknown> {
  const sure = await run("sure");
  expect(await run("held")).toEqual(sure);
  return sure;
}

test(
  "a workspace says how surely it is kept inside, and a node how the least of them is",
  patience,
  async () => {
    const { json } = await pair.gateway.cli(["workspaces", "ls", "--json"]);
    const { workspaces } = json as {
      readonly workspaces: readonly { readonly name: string; readonly containment: string }[];
    };
    expect(workspaces.map(({ containment }) => containment).toSorted()).toEqual(["best_effort", "kernel"]);
    expect(await pair.gateway.json(["nodes", "show", "devbox"])).toMatchObject({
      containment: "best_effort",
    });
    const shown = await pair.gateway.cli(["nodes", "show", "devbox"]);
    expect(shown.stdout).toMatch(/containment: best effort/u);
    const { json: own } = await pair.node.cli(["node", "workspace", "ls", "--json"]);
    expect(own).toMatchObject({ workspaces: [{ containment: "kernel" }, { containment: "best_effort" }] });
  },
);

test("what is read, listed and refused is the same", patience, async () => {
  const listed = await forBoth((door) => said(door, ["ls", `devbox:/${door}`, "--recursive"]));
  expect(listed).toEqual([0, expect.stringContaining("src/deep/c.txt")]);
  await forBoth((door) => said(door, ["stat", `devbox:/${door}/src/b.txt`]));
  for (const at of ["a.txt", "src/b.txt", "big", "name\nline"]) {
    const [sure, held] = await Promise.all(
      doors.map(async (door) => (await pair.files(["cat", `devbox:/${door}/${at}`])).stdout),
    );
    expect(held).toBe(sure);
    expect(sure).toBe(await readFile(pair.workspace.join("sure", at), "utf8"));
  }
  const codes: Record<string, string> = {
    "src/linked": "SYMLINK_REFUSED",
    "src/out/passwd": "SYMLINK_REFUSED",
    "src/fifo": "UNSUPPORTED_FILE_TYPE",
    "two-names": "HARDLINK_REFUSED",
    ".ssh/key": "POLICY_DENIED",
    src: "NOT_A_FILE",
    gone: "NOT_FOUND",
    "a.txt/below": "NOT_A_DIRECTORY",
    "../x": "PATH_INVALID",
  };
  for (const [at, code] of Object.entries(codes)) {
    const answer = await forBoth((door) => said(door, ["cat", `devbox:/${door}/${at}`]));
    expect(answer).toEqual([expect.any(Number), expect.stringContaining(code)]);
  }
});

test("what is written, moved and removed is the same, and so are trees both ways", patience, async () => {
  await writeFile(here.join("one"), "one");
  const steps: readonly (readonly string[])[] = [
    ["put", here.join("one"), "DOOR/made/by/put", "--if-match", "absent"],
    ["put", here.join("one"), "DOOR/a.txt", "--if-match", "absent"],
    ["put", here.join("one"), "DOOR/a.txt", "--if-match", "any"],
    ["put", here.join("one"), "DOOR/src/linked", "--if-match", "any"],
    ["mkdir", "DOOR/folder"],
    ["mkdir", "DOOR/folder"],
    ["mv", "DOOR/made/by", "DOOR/moved"],
    ["mv", "DOOR/moved", "DOOR/moved/inside"],
    ["rm", "DOOR/moved"],
    ["rm", "DOOR/moved", "--recursive"],
    ["rm", "DOOR/nothing"],
  ];
  for (const step of steps)
    await forBoth((door) =>
      said(
        door,
        step.map((one) => one.replace("DOOR", `devbox:/${door}`)),
      ),
    );
  const got = await forBoth(async (door) => {
    const result = await said(door, ["get", `devbox:/${door}/src`, here.join(`got-${door}`)]);
    return [result, await treeOf(here.join(`got-${door}`))];
  });
  expect(got).toEqual([
    [7, expect.any(String)],
    expect.objectContaining({ "deep/c.txt": expect.any(String) }),
  ]);
  await rename(here.join("got-sure"), here.join("mine"));
  await forBoth((door) => said(door, ["put", here.join("mine"), `devbox:/${door}/again`]));
  await writeFile(here.join("mine/b.txt"), "changed");
  await forBoth((door) =>
    said(door, ["sync", `devbox:/${door}/again`, here.join("mine"), "--push", "--delete"]),
  );
  const trees = await Promise.all(
    doors.map(async (door) => await treeOf(pair.workspace.join(door, "again"))),
  );
  expect(trees[1]).toEqual(trees[0]);
  for (const door of doors)
    expect(
      (await readdir(pair.workspace.join(door), { recursive: true })).filter((at) =>
        at.includes(".fairlead-"),
      ),
    ).toEqual([]);
});
