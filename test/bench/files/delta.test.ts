import { appendFile, copyFile, mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { startPeers, type Peers } from "../support/peers.ts";
import { cpuSeconds, runMeasured } from "../support/processes.ts";
import { printReport, runInTurn, saveReports, type Contender, type Report } from "../support/report.ts";
import { startCountedPair, type CountedPair } from "./pair.ts";
import { digestFile, writeRandomFile } from "./trees.ts";

const isQuick = process.env["FAIRLEAD_BENCH"] === "quick";
const mebi = 1024 * 1024;
const sizeBytes = (isQuick ? 256 : 1024) * mebi;
const rounds = isQuick ? 1 : 3;
const timeoutMs = 300_000;

/** What went over the wire in the runs of each contender, in bytes. */
type WireBytes = Map<string, number[]>;

interface Ground {
  /** The file as it was, and with a byte in front. */
  readonly old: string;
  readonly next: string;
  readonly there: string;
  readonly here: string;
  readonly wire: WireBytes;
}

async function prepare(folder: string): Promise<Ground> {
  const [there, here] = [join(folder, "there"), join(folder, "here")];
  await mkdir(there);
  await mkdir(here);
  const [old, next] = [join(folder, "old"), join(folder, "next")];
  await writeRandomFile(old, sizeBytes);
  await appendFile(next, "x");
  await runMeasured(["/bin/bash", "-c", 'cat "$1" >> "$2"', "bash", old, next], { timeoutMs });
  // Both sides have the new file to send, and the old one to be replaced.
  for (const side of [there, here]) await copyFile(next, join(side, "next"));
  return { old, next, there, here, wire: new Map() };
}

function makeContender(
  { old, wire }: Ground,
  { name, target, expected }: { readonly name: string; readonly target: string; readonly expected: string },
  run: () => Promise<{ readonly bytes: number } & Awaited<ReturnType<Contender["run"]>>>,
): Contender {
  return {
    name,
    prepare: async () => {
      await copyFile(old, target);
      await runMeasured(["sync"], { timeoutMs });
    },
    run: async () => {
      const { bytes, ...measured } = await run();
      wire.set(name, [...(wire.get(name) ?? []), bytes]);
      return measured;
    },
    check: async () => expect(await digestFile(target)).toBe(expected),
  };
}

function ownContenders(ground: Ground, pair: CountedPair, expected: string): Contender[] {
  const { there, here } = ground;
  const ends = {
    get: { target: join(here, "old"), args: ["devbox:/app/next", join(here, "old")] },
    put: { target: join(there, "old"), args: [join(here, "next"), "devbox:/app/old"] },
  };
  return (["get", "put"] as const).map((word) => {
    const { target, args } = ends[word];
    return makeContender(ground, { name: `ours ${word}`, target, expected }, async () => {
      const before = pair.wireBytes();
      const run = await pair.files([word, ...args, "--if-match", "any"]);
      return { ...run, bytes: pair.wireBytes() - before };
    });
  });
}

function peerContenders(ground: Ground, { ssh }: Peers, expected: string): Contender[] {
  if (!ssh) return [];
  const { there, here } = ground;
  return (["pull", "push"] as const).map((way) => {
    const [from, to] = way === "pull" ? [there, here] : [here, there];
    const target = join(to, "old");
    const said = join(ground.here, "said");
    // Its comparison by time and size must not take the files for equal, and it says itself what it moved.
    const argv = [...ssh.rsync(join(from, "next"), target, way), "--ignore-times", "--stats"];
    return makeContender(ground, { name: `rsync over ssh ${way}`, target, expected }, async () => {
      const before = await cpuSeconds(ssh.server.pid);
      const use = await runMeasured(["/bin/bash", "-c", '"$@" > "$0"', said, ...argv], { timeoutMs });
      const used = use.cpuSeconds + (await cpuSeconds(ssh.server.pid)) - before;
      return { wallMs: use.wallMs, cpuSeconds: used, bytes: await readMoved(said) };
    });
  });
}

/** Bytes that `rsync --stats` says it sent and received. */
async function readMoved(file: string): Promise<number> {
  const text = await readFile(file, "utf8");
  const all = [...text.matchAll(/^Total bytes (?:sent|received): ([\d,.]+)/gm)];
  expect(all).toHaveLength(2);
  return all.reduce((sum, [, digits = ""]) => sum + Number(digits.replaceAll(/[,.]/g, "")), 0);
}

test("a byte in front of a large file costs little more than the byte", async () => {
  await using folder = await makeTempFolder();
  await using peers = await startPeers(folder.path);
  for (const missing of peers.missing) console.log(`left out: ${missing} is not installed`);
  const ground = await prepare(folder.path);
  const expected = await digestFile(ground.next);
  await using pair = await startCountedPair(ground.there);
  const contenders = [...ownContenders(ground, pair, expected), ...peerContenders(ground, peers, expected)];
  const rows = await runInTurn(contenders, { rounds });
  const title = `one byte in front of ${sizeBytes / mebi} MiB`;
  const report: Report = { title, rows, ours: ["ours get", "ours put"], bytes: sizeBytes };
  printReport(report);
  for (const [name, all] of ground.wire)
    console.log(`${name}: ${(Math.max(...all) / mebi).toFixed(2)} MiB on the wire`);
  await saveReports("files-delta", [report]);
  await rm(ground.next);
  for (const word of ["get", "put"]) {
    const moved = Math.max(...(ground.wire.get(`ours ${word}`) ?? [Infinity]));
    expect(moved).toBeLessThan(4 * mebi);
    expect(moved / sizeBytes).toBeLessThan(isQuick ? 1 / 64 : 1 / 256);
  }
});
