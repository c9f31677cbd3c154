import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { startFilesPair, type FilesPair } from "../../scenarios/files/pair.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";
import { median } from "../support/report.ts";
import { writeRandomFile } from "./trees.ts";

const mebi = 1024 * 1024;
const workspace = "devbox:/app";
const readers = 10;
const readBytes = 48 * mebi;
const rounds = 5;
const stats = 100;
const statRounds = 3;

/** A read that has begun and is not gone on with, until it is ended. */
async function pausedRead(pair: FilesPair): Promise<AsyncDisposable> {
  const parts = pair.client.read({ workspace, path: "large" })[Symbol.asyncIterator]();
  for (let taken = 0; taken < 2; taken += 1) expect((await parts.next()).done).toBe(false);
  return { [Symbol.asyncDispose]: async () => void (await parts.return?.()) };
}

/** Ten reads at once; bytes a second of them together. */
async function rateOfTen(pair: FilesPair): Promise<number> {
  const startedAt = performance.now();
  const one = async (): Promise<number> => {
    let bytes = 0;
    for await (const { part } of pair.client.read({ workspace, path: "file" }))
      if (part.case === "chunk") bytes += part.value.byteLength;
    return bytes;
  };
  const all = await Promise.all(Array.from({ length: readers }, one));
  expect(all).toEqual(Array.from({ length: readers }, () => readBytes));
  return (readers * readBytes) / ((performance.now() - startedAt) / 1000);
}

/** Bytes of what lies in a folder. */
async function bytesIn(folder: string): Promise<number> {
  const all = await Promise.all((await readdir(folder)).map((name) => stat(join(folder, name))));
  return all.reduce((sum, { size }) => sum + size, 0);
}

/** How long a stat takes, in milliseconds: the one in the middle of many. */
async function statMs(pair: FilesPair): Promise<number> {
  const all: number[] = [];
  for (let count = 0; count < stats; count += 1) {
    const startedAt = performance.now();
    await pair.client.stat({ workspace, path: "file" });
    all.push(performance.now() - startedAt);
  }
  return median(all);
}

/** The same while a large file comes over the same link. */
async function statBesideMs(pair: FilesPair, here: TempFolder): Promise<number> {
  const args = ["files", "get", "devbox:/app/large", here.join("large"), "--json"];
  await using program = spawnProgram(args, { home: pair.gateway.home });
  let hasEnded = false;
  void program.ended.then(() => (hasEnded = true));
  await expect.poll(() => bytesIn(here.path), { timeout: 60_000, interval: 20 }).toBeGreaterThan(mebi);
  const ms = await statMs(pair);
  // It went on all the time.
  expect(hasEnded).toBe(false);
  await program.kill("SIGINT");
  return ms;
}

proves(
  "files.bench-fair-share",
  "a reader that stands still takes little from ten others, and a stat does not wait behind a large file",
  { timeout: 900_000 },
  async () => {
    await using pair = await startFilesPair();
    await using here = await makeTempFolder();
    await writeRandomFile(join(pair.workspace.path, "file"), readBytes);
    await writeRandomFile(join(pair.workspace.path, "large"), 2048 * mebi);
    await rateOfTen(pair);
    const [alone, beside]: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round += 1) {
      alone.push(await rateOfTen(pair));
      await using _paused = await pausedRead(pair);
      beside.push(await rateOfTen(pair));
    }
    const [before, withPaused] = [median(alone), median(beside)];
    console.log(
      `ten reads: ${(before / mebi).toFixed(0)} MiB/s, beside one that is paused ${(withPaused / mebi).toFixed(0)} MiB/s, ${(withPaused / before).toFixed(2)} ×`,
    );
    expect(withPaused / before).toBeGreaterThanOrEqual(0.75);

    const [idles, busies]: [number[], number[]] = [[], []];
    for (let round = 0; round < statRounds; round += 1) {
      idles.push(await statMs(pair));
      busies.push(await statBesideMs(pair, here));
    }
    const [idle, busy] = [median(idles), median(busies)];
    console.log(
      `stat: ${idle.toFixed(2)} ms idle, ${busy.toFixed(2)} ms beside a transfer, ${(busy / idle).toFixed(1)} ×`,
    );
    expect(busy / idle).toBeLessThanOrEqual(5);
  },
);
