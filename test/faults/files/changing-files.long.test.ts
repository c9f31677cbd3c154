import {
  openSync,
  closeSync,
  ftruncateSync,
  readFileSync,
  renameSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { isFault } from "../../../shared/fault/fault.ts";
import { startHostilePair, type HostilePair } from "../../attacks/files/hostile-pair.ts";
import { errorOf } from "../../scenarios/files/pair.ts";
import type { SyncResult } from "../../scenarios/files/sync-kit.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const patience = { timeout: 10 * 60_000 };
const workspace = "devbox:/app";
const mebi = 1024 * 1024;
let pair: HostilePair;

beforeAll(async () => {
  pair = await startHostilePair(100_000);
}, 120_000);

afterEach(() => pair.answer({}));

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

const oldState = Buffer.alloc(4 * mebi, "o");
const newState = Buffer.alloc(4 * mebi, "n");

/** What may become of a file of old bytes: each leaves new ones, all of them or some. */
const changes: Readonly<Record<string, (file: string) => void>> = {
  rewritten: (file) => writeFileSync(file, newState),
  "rewritten with its time": (file) => {
    const { atime, mtime } = statSync(file);
    writeFileSync(file, newState);
    utimesSync(file, atime, mtime);
  },
  "changed at its end": (file) => inPlace(file, (fd) => void writeSync(fd, "n", 4 * mebi - 1)),
  "made longer": (file) => inPlace(file, (fd) => void writeSync(fd, newState, 0, mebi, 4 * mebi)),
  "made shorter": (file) => inPlace(file, (fd) => ftruncateSync(fd, mebi)),
  replaced: (file) => {
    writeFileSync(`${file}.next`, newState);
    renameSync(`${file}.next`, file);
  },
};

function inPlace(file: string, work: (fd: number) => void): void {
  const fd = openSync(file, "r+");
  try {
    work(fd);
  } finally {
    closeSync(fd);
  }
}

async function* changedAt<T>(
  messages: AsyncIterable<T>,
  at: number,
  change: () => void,
): AsyncGenerator<T, void> {
  let index = 0;
  for await (const message of messages) {
    if (index === at) change();
    index += 1;
    yield message;
  }
}

interface Read {
  readonly content: Buffer;
  readonly digest: string;
}

async function read(terms: {
  readonly ifMatch?: string;
  readonly resumeBytes?: bigint;
  readonly resumeDigest?: string;
}): Promise<Read | string> {
  const chunks: Buffer[] = [];
  let digest = "";
  try {
    for await (const { part } of pair.client.read({ workspace, path: "file", ...terms })) {
      if (part.case === "chunk") chunks.push(Buffer.from(part.value));
      if (part.case === "trailer") digest = part.value.digest;
    }
  } catch (error) {
    if (isFault(error)) return error.code;
    throw error;
  }
  return { content: Buffer.concat(chunks), digest };
}

/** One state of the file and no mixture, or nothing that was said to be complete. */
function expectWholeOrRefused(what: string, got: Read | string, held: Buffer): void {
  if (typeof got === "string") {
    expect([what, got]).toEqual([what, "INTEGRITY_FAILURE"]);
    return;
  }
  const whole = Buffer.concat([held, got.content]);
  expect([what, got.digest]).toEqual([what, digestOf(whole)]);
  expect([what, whole.equals(oldState) || whole.equals(newState)]).toEqual([what, true]);
}

async function readWhileChanged(): Promise<void> {
  const file = join(pair.temp.dir, "file");
  const held = oldState.subarray(0, mebi);
  const nothing = Buffer.alloc(0);
  const all = [
    [{}, nothing],
    [{ ifMatch: digestOf(oldState) }, nothing],
    [{ resumeBytes: BigInt(mebi), resumeDigest: digestOf(held) }, held],
  ] as const;
  for (const [name, change] of Object.entries(changes)) {
    for (const [terms, known] of all) {
      // With the header what was asked about has been hashed and nothing was sent.
      for (const at of [0, 1, 5]) {
        writeFileSync(file, oldState);
        pair.answer({
          read: (request, context) =>
            changedAt(pair.temp.files.read(request, context), at, () => change(file)),
        });
        expectWholeOrRefused(
          `${name} at ${at} ${JSON.stringify(Object.keys(terms))}`,
          await read(terms),
          known,
        );
      }
    }
  }
}

async function getWhileChanged(): Promise<void> {
  const file = join(pair.temp.dir, "tree/file");
  await mkdir(join(pair.temp.dir, "tree"));
  for (const [name, change] of Object.entries(changes)) {
    await using here = await makeTempFolder();
    writeFileSync(file, oldState);
    pair.answer({
      read: (request, context) => changedAt(pair.temp.files.read(request, context), 3, () => change(file)),
      readTree: (request, context) =>
        changedAt(pair.temp.files.readTree(request, context), 3, () => change(file)),
    });
    const one = await pair.files(["get", `${workspace}/tree/file`, here.join("one"), "--json"]);
    if (one.exitCode === 0) {
      const content = await readFile(here.join("one"));
      expect([name, (one.json as { digest: string }).digest]).toEqual([name, digestOf(content)]);
      expect([name, content.equals(oldState) || content.equals(newState)]).toEqual([name, true]);
    } else expect([name, errorOf(one).code, await here.entries()]).toEqual([name, "INTEGRITY_FAILURE", []]);

    writeFileSync(file, oldState);
    const all = await pair.files(["get", `${workspace}/tree`, here.join("all"), "--json"]);
    const { failed } = all.json as SyncResult;
    if (all.exitCode === 0) {
      const content = await readFile(here.join("all/file"));
      expect([name, content.equals(oldState) || content.equals(newState)]).toEqual([name, true]);
    } else {
      expect([name, all.exitCode, failed]).toMatchObject([
        name,
        7,
        [{ path: "file", code: "INTEGRITY_FAILURE" }],
      ]);
      expect([name, await readdir(here.join("all"))]).toEqual([name, []]);
    }
  }
}

async function syncWhileChanged(): Promise<void> {
  await using here = await makeTempFolder();
  const dir = join(pair.temp.dir, "synced");
  await mkdir(dir);
  for (const [name, size] of [
    ["large", 4 * mebi],
    ["small", 1000],
  ] as const) {
    writeFileSync(join(dir, name), oldState.subarray(0, size));
  }
  pair.answer({
    manifest: async function* (request, context) {
      yield* pair.temp.files.manifest(request, context);
      writeFileSync(join(dir, "large"), newState);
      writeFileSync(join(dir, "small"), newState.subarray(0, 1000));
    },
  });
  const args = ["sync", `${workspace}/synced`, here.join("tree"), "--json"];
  const first = await pair.files(args);
  expect([first.exitCode, first.json]).toMatchObject([0, { failed: [] }]);
  expect((await readFile(here.join("tree/large"))).equals(newState)).toBe(true);
  expect(await readFile(here.join("tree/small"))).toEqual(newState.subarray(0, 1000));
  pair.answer({});
  expect((await pair.files(args)).json).toMatchObject({ filesSent: 0, changes: [], failed: [] });
}

async function putWhileChanged(): Promise<void> {
  const longer = Buffer.alloc(48 * mebi, "o");
  await using here = await makeTempFolder();
  await mkdir(here.join("tree"));
  const file = here.join("tree/file");
  const change = (): void => inPlace(file, (fd) => void writeSync(fd, "n", longer.length - 10));
  pair.answer({
    write: (requests, context) => pair.temp.files.write(changedAt(requests, 3, change), context),
    writeTree: (requests, context) => pair.temp.files.writeTree(changedAt(requests, 3, change), context),
  });
  writeFileSync(file, longer);
  const one = await pair.files(["put", file, `${workspace}/put`, "--json"]);
  expect([one.exitCode, errorOf(one).code]).toEqual([1, "INTEGRITY_FAILURE"]);
  writeFileSync(file, longer);
  const all = await pair.files(["put", here.join("tree"), `${workspace}/put-tree`, "--json"]);
  expect([all.exitCode, all.json]).toMatchObject([
    7,
    { failed: [{ path: "file", code: "INTEGRITY_FAILURE" }] },
  ]);
  const left = (await readdir(pair.temp.dir, { recursive: true })).filter((name) =>
    /put.*file|put$|stage/.test(name),
  );
  expect(left).toEqual([]);
}

proves(
  "files.changed-while-read",
  "a file that changes while it is read is one of its states with that digest, or is refused",
  patience,
  async () => {
    await readWhileChanged();
    await getWhileChanged();
    await syncWhileChanged();
    await putWhileChanged();
  },
);

const count = 5_000;
const largeCount = 20;

/** A whole state of a file: its first character says how long it is. */
function stateOf(turn: number, isLarge: boolean): string {
  return `${turn % 10}`.repeat((isLarge ? 600_000 : 100) + (turn % 10) * 100);
}

function isWhole(text: string): boolean {
  const turn = Number(text[0]);
  return [true, false].some((isLarge) => text === stateOf(turn, isLarge));
}

async function fill(dir: string): Promise<readonly string[]> {
  await rm(dir, { recursive: true, force: true });
  await mkdir(dir);
  const names = Array.from({ length: count }, (_, index) =>
    index < largeCount ? `large${index}` : `f${index}`,
  );
  for (const name of names) writeFileSync(join(dir, name), stateOf(0, name.startsWith("large")));
  return names;
}

/** Between two messages a fifth of the files is written anew, in place or by rename, or gets another name. */
async function* churned<T>(
  dir: string,
  names: readonly string[],
  messages: AsyncIterable<T>,
): AsyncGenerator<T, void> {
  let turn = 0;
  for await (const message of messages) {
    turn += 1;
    for (let index = turn % 5; index < names.length; index += 5) {
      const name = names[index] ?? "";
      if (turn > 10 && !name.startsWith("large")) break;
      const file = join(dir, name);
      const content = stateOf(turn + index, name.startsWith("large"));
      try {
        if (index % 3 === 0) writeFileSync(file, content);
        else if (index % 3 === 1) {
          writeFileSync(`${file}.next`, content);
          renameSync(`${file}.next`, file);
        } else renameSync(file, `${file}.moved`);
      } catch {
        // It has another name by now.
        continue;
      }
    }
    yield message;
  }
}

async function expectEach(
  names: readonly string[],
  target: string,
  result: { readonly exitCode: number | null; readonly json: unknown },
): Promise<void> {
  const { failed } = result.json as SyncResult;
  const missed = new Set(failed.map(({ path }) => path));
  expect(failed.length).toBeGreaterThan(0);
  expect(result.exitCode).toBe(7);
  const arrived = new Set(await readdir(target));
  expect(names.filter((name) => !arrived.has(name) && !missed.has(name))).toEqual([]);
  const broken = [...arrived].filter((name) => !isWhole(readFileSync(join(target, name), "latin1")));
  expect(broken).toEqual([]);
  expect(arrived.size).toBeGreaterThan(count / 4);
}

proves(
  "files.tree-changes-meanwhile",
  "of a tree that is rewritten while it travels each file arrives whole, or is named",
  patience,
  async () => {
    await using here = await makeTempFolder();
    const dir = join(pair.temp.dir, "churned");
    let names = await fill(dir);
    pair.answer({
      readTree: (request, context) => churned(dir, names, pair.temp.files.readTree(request, context)),
    });
    const got = await pair.files(["get", `${workspace}/churned`, here.join("got"), "--json"]);
    await expectEach(names, here.join("got"), got);

    names = await fill(here.join("put"));
    pair.answer({
      writeTree: (requests, context) =>
        pair.temp.files.writeTree(churned(here.join("put"), names, requests), context),
    });
    const put = await pair.files(["put", here.join("put"), `${workspace}/arrived`, "--json"]);
    await expectEach(names, join(pair.temp.dir, "arrived"), put);

    // Nothing failed, and only then it is 0.
    pair.answer({});
    const quiet = await pair.files(["get", `${workspace}/arrived`, here.join("quiet"), "--json"]);
    expect([quiet.exitCode, quiet.json]).toMatchObject([0, { failed: [] }]);
  },
);
