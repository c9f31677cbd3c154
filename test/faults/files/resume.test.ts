import { open, readdir, readlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { proves } from "../../support/proves.ts";
import {
  again,
  expectArrived,
  makeWay,
  resultOf,
  sizeBytes,
  startAndReach,
  startBreakablePair,
  untilUsable,
  type BreakablePair,
  type Way,
} from "./one-way.ts";

const patience = { timeout: 240_000 };
const mebi = 1024 * 1024;
const cutAtBytes = sizeBytes * 0.4;

let pair: BreakablePair;

beforeAll(async () => {
  pair = await startBreakablePair();
}, 120_000);

afterAll(async () => {
  await pair[Symbol.asyncDispose]();
});

function wireBytes(way: Way): number {
  return pair.proxy.counts[way === "get" ? "up" : "down"].bytes;
}

test("a file that is cut off goes on from what arrived, both ways", patience, async () => {
  for (const way of ["get", "put"] as const) {
    await using one = await makeWay(pair, way, `cut-${way}`);
    const before = wireBytes(way);
    await using program = await startAndReach(pair, one, cutAtBytes);
    pair.proxy.cut();
    pair.proxy.mend();
    expect([way, (await program.ended).exitCode]).toEqual([way, 0]);
    expect(resultOf(program).digest).toBe(digestOf(one.content));
    await expectArrived(one);
    // From its begin again it would be 140 %.
    expect([way, wireBytes(way) - before]).toSatisfy(([, bytes]: [Way, number]) => bytes < sizeBytes * 1.2);
  }
});

proves(
  "files.resume-checks-source",
  "what changed between cut and resume arrives as it is now, never as a mixture",
  patience,
  async () => {
    for (const way of ["get", "put"] as const) {
      for (const change of ["source", "part"] as const) {
        await using one = await makeWay(pair, way, `checked-${way}-${change}`);
        await using program = await startAndReach(pair, one, cutAtBytes);
        await program.kill("SIGKILL");
        pair.proxy.mend();
        let content = one.content;
        if (change === "source") {
          content = Buffer.from(one.content);
          content.writeUInt8(content.readUInt8(mebi) ^ 1, mebi);
          await writeFile(one.source, content);
        } else await alterPart(one.folder);
        expect((await again(pair, one)).digest).toBe(digestOf(content));
        await expectArrived(one, content);
      }
    }
  },
);

async function alterPart(folder: string): Promise<void> {
  const isKept = (name: string): boolean => name.startsWith(".fairlead-stage-");
  const [name] = (await readdir(folder)).filter(isKept);
  const file = await open(join(folder, name ?? "nothing is kept"), "r+");
  try {
    const byte = Buffer.alloc(1);
    await file.read(byte, 0, 1, mebi);
    byte.writeUInt8(byte.readUInt8(0) ^ 1);
    await file.write(byte, 0, 1, mebi);
  } finally {
    await file.close();
  }
}

proves(
  "files.cancel-leaves-nothing",
  "a transfer that is cancelled leaves nothing, and a part that nobody comes back for goes after a day",
  patience,
  async () => {
    for (const way of ["get", "put"] as const) {
      await using one = await makeWay(pair, way, `cancelled-${way}`);
      await using program = await startAndReach(pair, one, sizeBytes * 0.3);
      expect((await program.kill("SIGINT")).exitCode).toBe(130);
      await expect.poll(() => openBelow(pair.workspace.path), { timeout: 1_000 }).toEqual([]);
      await expect.poll(() => readdir(one.folder), { timeout: 1_000 }).toEqual([]);
      pair.proxy.mend();
    }
    await using left = await makeWay(pair, "put", "left");
    await using program = await startAndReach(pair, left, sizeBytes * 0.3);
    await program.kill("SIGKILL");
    pair.proxy.mend();
    const kept = async (): Promise<string[]> => await readdir(left.folder);
    await expect.poll(kept).toEqual([expect.stringMatching(/^\.fairlead-stage-kept-/)]);
    const [name = ""] = await kept();
    const ageTo = async (hours: number): Promise<void> => {
      const at = new Date(Date.now() - hours * 60 * 60 * 1000);
      await utimes(join(left.folder, name), at, at);
      await pair.node.restart();
      await untilUsable(pair);
    };
    await ageTo(23.5);
    expect(await kept()).toEqual([name]);
    await ageTo(24.5);
    await expect.poll(kept).toEqual([]);
  },
);

/** What of a folder the node's agent has open, besides the folder itself. */
async function openBelow(folder: string): Promise<string[]> {
  const fds = `/proc/${pair.node.pid}/fd`;
  const links = await Promise.all((await readdir(fds)).map((fd) => readlink(join(fds, fd)).catch(() => "")));
  return links.filter((link) => link.startsWith(`${folder}/`));
}
