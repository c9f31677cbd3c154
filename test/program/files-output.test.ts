import { randomBytes } from "node:crypto";
import { chmod, lstat, mkdir, readdir, readFile, readlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { digestOf } from "../../shared/content/digest.ts";
import { runProgram } from "../faults/files/tmpfs.ts";
import { startFilesPair, type FilesPair } from "../scenarios/files/pair.ts";
import { onTerminal } from "../support/on-terminal.ts";
import { proves } from "../support/proves.ts";
import { spawnProgram } from "../support/spawn-program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const patience = { timeout: 240_000 };
const mebi = 1024 * 1024;
let pair: FilesPair;

beforeAll(async () => {
  pair = await startFilesPair({ throughProxy: true });
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

proves(
  "files.transfer-output",
  "progress is for terminals and goes to standard error, and a result is one document",
  patience,
  async () => {
    await using here = await makeTempFolder();
    await pair.workspace.write({ "out/a": randomBytes(2 * mebi), "out/b": "b" });
    await mkdir(here.join("local"));
    await writeFile(here.join("local/c"), randomBytes(2 * mebi));
    const commands: readonly (readonly string[])[] = [
      ["get", "devbox:/app/out", here.join("got")],
      ["put", here.join("local"), "devbox:/app/stored"],
      ["sync", "devbox:/app/out", here.join("synced")],
    ];
    for (const words of commands) {
      const [verb = ""] = words;
      const { exitCode, stderr, json } = await pair.files([...words, "--json"]);
      expect([verb, exitCode, stderr]).toEqual([verb, 0, ""]);
      const number: unknown = expect.any(Number);
      expect(json).toMatchObject({
        filesSent: verb === "put" ? 1 : 2,
        bytesSent: verb === "put" ? 2 * mebi : 2 * mebi + 1,
        filesReused: number,
        bytesReused: number,
        failed: [],
        durationMs: number,
      });
      const file = here.join(`${verb}.out`);
      const { code, shown } = await onTerminal(pair.gateway.home, words, { redirect: ` >'${file}'` });
      expect([verb, code]).toEqual([verb, 0]);
      expect(shown).toMatch(/\d+% .*MiB/);
      const result = await readFile(file, "utf8");
      expect(result).toContain(" -> ");
      expect(result).not.toMatch(/%|MiB/);
    }
  },
);

proves(
  "files.tree-as-archive",
  "a folder comes as one archive that tar unpacks to the same tree, or not at all",
  patience,
  async () => {
    await using here = await makeTempFolder();
    const long = "d".repeat(120);
    await pair.workspace.write({
      "arch/plain.txt": "plain",
      "arch/empty.txt": "",
      "arch/script": "#!/bin/sh",
      [`arch/${long}/${"f".repeat(150)}`]: "long names",
      "arch/naïve ünï.txt": "not ASCII",
      "arch/ümlaut/inner": "in",
      "arch/large": randomBytes(5 * mebi + 3),
      "arch/folder/empty/": "",
    });
    const at = (path: string): string => join(pair.workspace.path, "arch", path);
    await chmod(at("script"), 0o755);
    await chmod(at("plain.txt"), 0o640);
    await pair.workspace.link("arch/folder/link", "../plain.txt");
    const whole = await pair.files(["get", "devbox:/app/arch", here.join("whole.tar"), "--json"]);
    expect(whole.exitCode).toBe(0);
    expect(whole.json).toMatchObject({ files: 7, folders: 4, links: 1, failed: [] });
    await mkdir(here.join("unpacked"));
    await runProgram("tar", ["-xf", here.join("whole.tar"), "-C", here.join("unpacked")]);
    expect(await treeOf(here.join("unpacked"))).toEqual(await treeOf(join(pair.workspace.path, "arch")));

    await runProgram("mkfifo", [at("fifo")]);
    await pair.workspace.link("arch/outside", "/etc/passwd");
    const partial = await pair.files(["get", "devbox:/app/arch", here.join("partial.tar"), "--json"]);
    expect(partial.exitCode).toBe(7);
    const { failed } = partial.json as { readonly failed: readonly { readonly path: string }[] };
    expect(failed.map(({ path }) => path).toSorted()).toEqual(["fifo", "outside"]);
    const listed = await runProgram("tar", ["-tf", here.join("partial.tar")]);
    expect(listed).toContain("plain.txt");
    expect(listed).not.toMatch(/fifo|outside/);

    await pair.workspace.write({ "big/file": Buffer.alloc(192 * mebi, "big") });
    await using heap = spawnProgram(["files", "get", "devbox:/app/big", here.join("big.tar")], {
      home: pair.gateway.home,
      nodeArgs: ["--max-old-space-size=64"],
    });
    const seen = { peakBytes: 0, hasEnded: false };
    void heap.ended.then(() => (seen.hasEnded = true));
    const look = async (): Promise<boolean> => {
      seen.peakBytes = Math.max(seen.peakBytes, await peakOf(heap.pid));
      return seen.hasEnded;
    };
    await expect.poll(look, { timeout: 120_000 }).toBe(true);
    expect((await heap.ended).exitCode).toBe(0);
    // A program takes about 100 MiB to begin with; the archive has 192.
    expect(seen.peakBytes).toBeLessThan(220 * mebi);
    expect((await lstat(here.join("big.tar"))).size).toBeGreaterThan(192 * mebi);

    pair.proxy?.limit(16 * mebi);
    const before = pair.proxy?.counts.up.bytes ?? 0;
    await using cut = spawnProgram(["files", "get", "devbox:/app/big", here.join("cut.tar")], {
      home: pair.gateway.home,
    });
    await expect
      .poll(() => (pair.proxy?.counts.up.bytes ?? 0) - before, { timeout: 60_000 })
      .toBeGreaterThan(16 * mebi);
    pair.proxy?.cut();
    pair.proxy?.mend();
    expect((await cut.ended).exitCode).not.toBe(0);
    expect((await readdir(here.path)).filter((name) => /cut|fairlead/.test(name))).toEqual([]);
  },
);

/** How much memory a process has taken at most, in bytes. */
async function peakOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  return Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) * 1024;
}

async function treeOf(folder: string): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const { mode, mtimeMs } = await lstat(path);
    const name = path.slice(folder.length + 1);
    if (entry.isSymbolicLink()) found[name] = `link ${await readlink(path)}`;
    else if (entry.isDirectory()) found[name] = `folder ${mode & 0o777}`;
    else found[name] = `${digestOf(await readFile(path))} ${mode & 0o777} ${Math.trunc(mtimeMs)}`;
  }
  return found;
}
