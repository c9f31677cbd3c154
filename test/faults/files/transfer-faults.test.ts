import { randomBytes } from "node:crypto";
import { chmod, mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { errorOf, startFilesPair, type FilesPair } from "../../scenarios/files/pair.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { canMount, mountTmpfs, runProgram } from "./tmpfs.ts";

const patience = { timeout: 240_000 };
const asRoot = { timeout: 240_000, skip: !canMount() };
const workspace = "devbox:/app";
let pair: FilesPair;

beforeAll(async () => {
  // As root everything may be read: a refused permission needs another user.
  pair = await startFilesPair({ throughProxy: true, ...(canMount() ? { uid: 65534 } : {}) });
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

/** What is left of writes below a folder: staged files, and trees that have no name yet. */
async function leftovers(folder: string): Promise<string[]> {
  const found = await runProgram("find", [folder, "-name", ".fairlead-*"]);
  return found.split("\n").filter((line) => line !== "");
}

proves(
  "files.write-disk-full",
  "a disk that is full refuses what it cannot hold, and keeps what it held",
  asRoot,
  async () => {
    await using disk = await mountTmpfs(8 * 1024 * 1024);
    await using here = await makeTempFolder();
    await chmod(disk.path, 0o777);
    await pair.node.json([
      "node",
      "workspace",
      "add",
      "small",
      `${disk.path}`,
      "--read",
      "**",
      "--write",
      "**",
    ]);
    await writeFile(disk.join("old"), "old content");
    await chmod(disk.join("old"), 0o666);
    await writeFile(here.join("large"), randomBytes(12 * 1024 * 1024));
    await expect
      .poll(async () => (await pair.files(["stat", "devbox:/small/old"])).exitCode, { timeout: 30_000 })
      .toBe(0);
    const put = await pair.files([
      "put",
      here.join("large"),
      "devbox:/small/old",
      "--if-match",
      "any",
      "--json",
    ]);
    expect(put.exitCode).toBe(1);
    expect(errorOf(put)).toMatchObject({ code: "DISK_FULL", details: { errno: "ENOSPC" } });
    expect(await readFile(disk.join("old"), "utf8")).toBe("old content");
    expect(await leftovers(disk.path)).toEqual([]);

    await pair.workspace.write({ large: randomBytes(12 * 1024 * 1024) });
    await mkdir(disk.join("local"));
    await writeFile(disk.join("local/old"), "old content");
    const get = await pair.files(["get", "devbox:/app/large", disk.join("local/old"), "--json"]);
    expect(get.exitCode).toBe(1);
    expect(errorOf(get)).toMatchObject({ code: "DISK_FULL", details: { errno: "ENOSPC" } });
    expect(await readFile(disk.join("local/old"), "utf8")).toBe("old content");
    expect(await leftovers(disk.path)).toEqual([]);
    await pair.node.json(["node", "workspace", "rm", "small"]);
  },
);

type Part = { readonly content: string; readonly sizeBytes: number; readonly digest: string };

proves(
  "files.write-body-damaged",
  "a body that is not the one announced is never stored",
  patience,
  async () => {
    await pair.workspace.write({ "damaged/file": "as it was" });
    const before = await stat(join(pair.workspace.path, "damaged/file"));
    const right = { content: "body", sizeBytes: 4, digest: digestOf("body") };
    const bodies: readonly Part[] = [
      { ...right, content: "bod" },
      { ...right, content: "body and more" },
      { ...right, content: "bodY" },
      { ...right, digest: digestOf("other") },
      { ...right, sizeBytes: 3 },
      { ...right, sizeBytes: 5 },
    ];
    for (const { content, sizeBytes, digest } of bodies) {
      const size = BigInt(sizeBytes);
      const header = {
        workspace,
        path: "damaged/file",
        precondition: WritePrecondition.ANY,
        sizeBytes: size,
      };
      const messages = async function* () {
        yield { part: { case: "header" as const, value: header } };
        yield { part: { case: "chunk" as const, value: Buffer.from(content) } };
        yield { part: { case: "trailer" as const, value: { sizeBytes: size, digest } } };
      };
      expect((await faultOf(pair.client.write(messages()))).code).toBe("INTEGRITY_FAILURE");
      expect(await pair.workspace.text("damaged/file")).toBe("as it was");
      expect((await stat(join(pair.workspace.path, "damaged/file"))).ino).toBe(before.ino);
      await expect.poll(() => leftovers(pair.workspace.path)).toEqual([]);
    }
  },
);

proves(
  "files.tree-bad-entry",
  "what cannot be sent is named one by one and the rest arrives, or nothing does where that was asked for",
  asRoot,
  async () => {
    await using here = await makeTempFolder();
    const good = Object.fromEntries(
      Array.from({ length: 1000 }, (_, index) => [`bad/good-${index}`, `${index}`]),
    );
    await pair.workspace.write({ ...good, "bad/locked": "secret" });
    const at = (name: string): string => join(pair.workspace.path, "bad", name);
    await chmod(at("locked"), 0o000);
    await pair.workspace.link("bad/absolute", "/etc/passwd");
    await pair.workspace.link("bad/dangling", "nowhere");
    await pair.workspace.link("bad/looping", "looping");
    await runProgram("mkfifo", [at("fifo")]);
    const got = await pair.files(["get", "devbox:/app/bad", here.join("got"), "--json"]);
    expect(got.exitCode).toBe(7);
    const { failed, files } = got.json as { failed: { path: string; code: string }[]; files: number };
    expect(failed.map(({ path, code }) => `${path} ${code}`).toSorted()).toEqual([
      "absolute PATH_ESCAPES",
      "dangling NOT_FOUND",
      "fifo UNSUPPORTED_FILE_TYPE",
      "locked IO_ERROR",
      "looping SYMLINK_REFUSED",
    ]);
    expect(files).toBe(1000);
    expect((await here.entries()).length).toBe(1001);
    for (let index = 0; index < 1000; index += 1) {
      expect(await readFile(here.join(`got/good-${index}`), "utf8")).toBe(`${index}`);
    }
    const strict = await pair.files(["get", "devbox:/app/bad", here.join("strict"), "--strict", "--json"]);
    expect(strict.exitCode).not.toBe(0);
    expect(errorOf(strict)).toMatchObject({
      code: "PATH_ESCAPES",
      details: { path: expect.stringMatching(/absolute$/) },
    });
    expect((await here.entries()).some((entry) => entry.startsWith("strict") || entry.startsWith("."))).toBe(
      false,
    );
  },
);

test(
  "a node that is killed in the middle of a put leaves the old file until it goes on",
  patience,
  async () => {
    await using here = await makeTempFolder();
    const content = randomBytes(64 * 1024 * 1024);
    await writeFile(here.join("large"), content);
    await pair.workspace.write({ "killed/old": "old content" });
    for (const [round, target] of ["killed/old", "killed/none"].entries()) {
      const at = pair.proxy?.counts.down.bytes ?? 0;
      const put = pair.files([
        "put",
        here.join("large"),
        `devbox:/app/${target}`,
        "--if-match",
        "any",
        "--json",
      ]);
      const moved = (): number => (pair.proxy?.counts.down.bytes ?? 0) - at;
      await expect
        .poll(moved, { timeout: 60_000, interval: 1 })
        .toBeGreaterThan((round + 1) * 8 * 1024 * 1024);
      await pair.node.kill("SIGKILL");
      if (round === 0) expect(await pair.workspace.text("killed/old")).toBe("old content");
      else expect(await pair.workspace.has("killed/none")).toBe(false);
      await pair.node.restart();
      expect((await put).exitCode).toBe(0);
      expect((await pair.workspace.bytes(target)).equals(content)).toBe(true);
      expect(await leftovers(pair.workspace.path)).toEqual([]);
    }
  },
);
