import { randomBytes } from "node:crypto";
import { mkdir, open, readdir, readlink, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect } from "vitest";
import { digestOf } from "../../../shared/content/digest.ts";
import { type FilesWriteResponse, WritePrecondition } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { digestTree } from "../../bench/files/trees.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { spawnProgram } from "../../support/spawn-program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { beginWrite } from "../../support/write-whole.ts";
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

proves(
  "files.resume-after-cut",
  "a file or tree that is cut off goes on from what arrived, both ways",
  patience,
  async () => {
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
    for (const way of ["get", "put"] as const) {
      await using here = await makeTempFolder();
      const remote = join(pair.workspace.path, `cut-tree-${way}`);
      const local = here.join("tree");
      const [source, target] = way === "get" ? [remote, local] : [local, remote];
      await mkdir(join(source, "inner/empty"), { recursive: true });
      for (let at = 0; at < 500; at += 1)
        await writeFile(join(source, `inner/f${at}`), randomBytes(64 * 1024));
      await writeFile(join(source, "large"), randomBytes(sizeBytes - 500 * 64 * 1024));
      const ends = way === "get" ? [`devbox:/app/cut-tree-get`, local] : [local, `devbox:/app/cut-tree-put`];
      const before = wireBytes(way);
      pair.proxy.share(24 * mebi);
      await using program = spawnProgram(["files", way, ...ends, "--json"], { home: pair.gateway.home });
      await expect
        .poll(() => wireBytes(way) - before, { timeout: 60_000, interval: 5 })
        .toBeGreaterThan(cutAtBytes);
      pair.proxy.cut();
      pair.proxy.mend();
      expect([way, (await program.ended).exitCode, program.stderr()]).toEqual([
        way,
        0,
        expect.stringContaining("waiting"),
      ]);
      expect(JSON.parse(program.stdout())).toMatchObject({
        files: 501,
        folders: 2,
        bytes: sizeBytes,
        failed: [],
      });
      expect(await digestTree(target)).toBe(await digestTree(source));
      expect(
        (await readdir(target, { recursive: true })).filter((name) => name.includes(".fairlead")),
      ).toEqual([]);
      expect([way, wireBytes(way) - before]).toSatisfy(([, bytes]: [Way, number]) => bytes < sizeBytes * 1.3);
    }
  },
);

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

const app = "devbox:/app";
const replied = "reply/file";

/** Replaces `old`, and resolves once that took effect: nothing of it has come back to the gateway. */
async function replaceUnheard(
  old: string,
  content: string,
): Promise<{ readonly answer: Promise<FilesWriteResponse> }> {
  await untilUsable(pair);
  const condition = { precondition: WritePrecondition.MATCH, ifMatch: digestOf(old) };
  const { answer, finish } = beginWrite(pair.client, {
    workspace: app,
    path: replied,
    content,
    ...condition,
  });
  // All questions before it have been answered once it is staged.
  const staged = async (): Promise<number> => (await readdir(pair.workspace.join("reply"))).length;
  await expect.poll(staged, { timeout: 20_000, interval: 20 }).toBe(2);
  pair.proxy.swallow("up");
  finish();
  await expect.poll(() => pair.workspace.text(replied), { timeout: 20_000, interval: 20 }).toBe(content);
  return { answer };
}

async function lookAtReplied(): Promise<readonly bigint[]> {
  const { ino, ctimeNs } = await stat(join(pair.workspace.path, replied), { bigint: true });
  return [ino, ctimeNs];
}

proves(
  "files.write-reply-lost",
  "a write whose answer was lost is answered after the reconnect, or said to be unknown, and never made twice",
  patience,
  async () => {
    await pair.workspace.write({ [replied]: "as it was" });
    const { answer } = await replaceUnheard("as it was", "as it is");
    const stored = await lookAtReplied();
    pair.proxy.cut();
    pair.proxy.mend();
    const { entry, publication } = await answer;
    expect([entry?.digest, publication]).toEqual([digestOf("as it is"), "committed"]);
    expect([await pair.workspace.text(replied), await lookAtReplied()]).toEqual(["as it is", stored]);

    const lost = await replaceUnheard("as it is", "as nobody can say");
    const last = await lookAtReplied();
    await pair.node.kill("SIGKILL");
    // What the node knew of its calls is gone with it.
    const dir = join(pair.node.home, "node");
    const ledger = (await readdir(dir)).filter((name) => name.startsWith("ledger"));
    expect(ledger).not.toEqual([]);
    for (const name of ledger) await rm(join(dir, name));
    pair.proxy.mend();
    await pair.node.restart();
    expect(await faultOf(lost.answer)).toMatchObject({
      code: "OUTCOME_UNKNOWN",
      details: { callId: expect.stringMatching(/\S/) },
    });
    expect([await pair.workspace.text(replied), await lookAtReplied()]).toEqual(["as nobody can say", last]);
  },
);
