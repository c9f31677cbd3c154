import { randomBytes } from "node:crypto";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { startFilesPair, type FilesPair } from "../../scenarios/files/pair.ts";
import type { FaultProxy } from "../../support/fault-proxy.ts";
import { spawnProgram, type Program } from "../../support/spawn-program.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

const mebi = 1024 * 1024;

/** Size of the file that is transferred, in bytes. */
export const sizeBytes: number = 48 * mebi;

/** Which way a file goes. */
export type Way = "get" | "put";

/** A pair whose line can be broken. */
export interface BreakablePair extends FilesPair {
  readonly proxy: FaultProxy;
}

/** Starts it; the caller disposes it. */
export async function startBreakablePair(): Promise<BreakablePair> {
  const pair = await startFilesPair({ throughProxy: true });
  const { proxy } = pair;
  if (!proxy) throw new Error("the pair has no proxy");
  return { ...pair, proxy };
}

/** A transfer of one file, and where it goes. Disposing removes what is of it on this machine. */
export interface OneWay extends AsyncDisposable {
  readonly way: Way;
  readonly here: TempFolder;
  /** The command. */
  readonly args: readonly string[];
  /** The file that is written. */
  readonly target: string;
  /** The folder it is staged in. */
  readonly folder: string;
  /** The file that is read. */
  readonly source: string;
  readonly content: Buffer;
}

/** A file of random bytes in a folder `name` of its own, and where it is to go. */
export async function makeWay(pair: FilesPair, way: Way, name: string): Promise<OneWay> {
  const here = await makeTempFolder();
  const content = randomBytes(sizeBytes);
  const remote = join(pair.workspace.path, name, "file");
  const local = here.join("file");
  if (way === "get") await pair.workspace.write({ [`${name}/file`]: content });
  else {
    await pair.workspace.write({ [`${name}/`]: "" });
    await writeFile(local, content);
  }
  const ends = way === "get" ? [`devbox:/app/${name}/file`, local] : [local, `devbox:/app/${name}/file`];
  return {
    way,
    here,
    args: ["files", way, ...ends, "--json"],
    target: way === "get" ? local : remote,
    folder: way === "get" ? here.path : join(pair.workspace.path, name),
    source: way === "get" ? remote : local,
    content,
    [Symbol.asyncDispose]: async () => here[Symbol.asyncDispose](),
  };
}

/** Bytes that are staged in a folder at the moment. */
async function stagedBytes(folder: string): Promise<number> {
  let found = 0;
  for (const name of await readdir(folder)) {
    if (!name.startsWith(".fairlead-")) continue;
    const stats = await stat(join(folder, name)).catch(() => undefined);
    found = Math.max(found, stats?.size ?? 0);
  }
  return found;
}

/** Starts it over a line that is slow enough to be met in the middle, and waits until so much has arrived. */
export async function startAndReach(pair: BreakablePair, one: OneWay, bytes: number): Promise<Program> {
  pair.proxy.share(24 * mebi);
  const program = spawnProgram(one.args, { home: pair.gateway.home });
  await expect
    .poll(() => stagedBytes(one.folder), { timeout: 60_000, interval: 5 })
    .toBeGreaterThanOrEqual(bytes);
  return program;
}

/** What the command says of a transfer. */
export interface Result {
  readonly bytesSent: number;
  readonly bytesReused: number;
  readonly digest: string;
}

/** The result of a command that has ended. */
export function resultOf(program: { stdout(): string }): Result {
  return JSON.parse(program.stdout()) as Result;
}

/** The same command once more, to its end. */
export async function again(pair: FilesPair, one: OneWay): Promise<Result> {
  await using program = spawnProgram(one.args, { home: pair.gateway.home });
  const { exitCode } = await program.ended;
  expect([exitCode, program.stderr()]).toEqual([0, ""]);
  return resultOf(program);
}

/** The file has arrived whole, and nothing else stands beside it. */
export async function expectArrived(one: OneWay, content: Buffer = one.content): Promise<void> {
  expect(digestOf(await readFile(one.target))).toBe(digestOf(content));
  expect((await readdir(one.folder)).filter((name) => name.startsWith("."))).toEqual([]);
}

/** Resolves once the workspace can be used. */
export async function untilUsable(pair: FilesPair): Promise<void> {
  const look = async (): Promise<number | null> => (await pair.files(["stat", "devbox:/app"])).exitCode;
  await expect.poll(look, { timeout: 60_000 }).toBe(0);
}
