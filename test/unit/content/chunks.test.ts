import { randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import {
  chooseAverageBits,
  type ChunkList,
  type ChunkSource,
  cutChunks,
  knowChunks,
  listWhole,
} from "../../../shared/content/chunks.ts";
import { chunkSizes } from "../../../shared/content/cut.ts";
import { createDigester, digestOf } from "../../../shared/content/digest.ts";
import { diffFile } from "../../../shared/tree/delta.ts";
import { faultOf } from "../../support/fault-of.ts";

const mebi = 1024 * 1024;
const { signal } = new AbortController();

function sourceOf(bytes: Buffer): ChunkSource {
  return { read: async (buffer, position) => bytes.copy(buffer, 0, position) };
}

async function listOf(bytes: Buffer): Promise<ChunkList> {
  const list = await listWhole(sourceOf(bytes), { sizeBytes: bytes.length, signal, onRead: () => undefined });
  if (!list) throw new Error("it is sent whole");
  return list;
}

/** What is sent of `next` to somebody who holds `base`, and what they make of it. */
async function send(
  base: Buffer,
  next: Buffer,
): Promise<{ readonly sentBytes: number; readonly made: Buffer }> {
  const known = knowChunks([await listOf(base)], "known");
  const digester = createDigester();
  const pieces: Buffer[] = [];
  let sentBytes = 0;
  for await (const part of diffFile(sourceOf(next), { known, digester, signal })) {
    if (part.kind === "copy") pieces.push(base.subarray(part.offset, part.offset + part.sizeBytes));
    else {
      sentBytes += part.bytes.byteLength;
      pieces.push(Buffer.from(part.bytes));
    }
  }
  expect(digester.digest()).toBe(digestOf(next));
  return { sentBytes, made: Buffer.concat(pieces) };
}

test("chunks follow one another without a gap, near their average and never beyond their bounds", async () => {
  const bytes = randomBytes(8 * mebi + 5);
  const { minBytes, averageBytes, maxBytes } = chunkSizes(16);
  expect([minBytes, averageBytes, maxBytes]).toEqual([16 * 1024, 64 * 1024, 256 * 1024]);
  let at = 0;
  const sizes: number[] = [];
  for await (const chunk of cutChunks(sourceOf(bytes), { averageBits: 16, signal })) {
    expect(chunk.offset).toBe(at);
    expect(bytes.compare(chunk.bytes, 0, chunk.bytes.byteLength, at, at + chunk.bytes.byteLength)).toBe(0);
    at += chunk.bytes.byteLength;
    sizes.push(chunk.bytes.byteLength);
  }
  expect(at).toBe(bytes.length);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(maxBytes);
  expect(Math.min(...sizes.slice(0, -1))).toBeGreaterThanOrEqual(minBytes);
  expect(bytes.length / sizes.length).toBeGreaterThan(averageBytes / 2);
  expect(bytes.length / sizes.length).toBeLessThan(averageBytes * 2);
});

test("the cuts are the same on every machine and in every version", async () => {
  const bytes = Buffer.alloc(2 * mebi);
  for (let at = 0; at < bytes.length; at += 4) bytes.writeInt32LE(Math.imul(at, at ^ 0x9e3779b9), at);
  const { sizes } = await listOf(bytes);
  expect(digestOf(JSON.stringify(sizes))).toBe(
    "sha256:ffa7f6564ad17ba080dbec0f15c9b2446e9dc797ca7ca7d1af7750ea521acb56",
  );
});

test("what is put in, taken out or moved changes the chunks around that place and no others", async () => {
  const base = randomBytes(6 * mebi);
  const byte = Buffer.from([7]);
  const cases = {
    front: Buffer.concat([byte, base]),
    middle: Buffer.concat([base.subarray(0, 3 * mebi), byte, base.subarray(3 * mebi)]),
    end: Buffer.concat([base, byte]),
    cut: Buffer.concat([base.subarray(0, 2 * mebi), base.subarray(3 * mebi)]),
    moved: Buffer.concat([base.subarray(4 * mebi), base.subarray(0, 4 * mebi)]),
    twice: Buffer.concat([base, base]),
  };
  for (const [name, next] of Object.entries(cases)) {
    const { sentBytes, made } = await send(base, next);
    expect([name, made.equals(next)]).toEqual([name, true]);
    expect([name, sentBytes]).toSatisfy(([, bytes]: [string, number]) => bytes < mebi);
  }
  expect((await send(base, base)).sentBytes).toBe(0);
});

test("a file that has nothing in common is sent whole, and one of one byte again and again is cut as well", async () => {
  const other = randomBytes(2 * mebi);
  expect(await send(randomBytes(2 * mebi), other)).toEqual({ sentBytes: other.length, made: other });
  const [zeros, more] = [Buffer.alloc(2 * mebi), Buffer.alloc(5 * mebi)];
  const { sentBytes, made } = await send(zeros, more);
  expect(sentBytes).toBeLessThan(mebi);
  expect(made.equals(more)).toBe(true);
});

test("a larger file has larger chunks, and the smallest and the largest are not compared", () => {
  const gibi = 1024 * mebi;
  const sizes = [2 * mebi - 1, 2 * mebi, 512 * mebi, gibi, 8 * gibi, 64 * gibi, 64 * gibi + 1];
  expect(sizes.map(chooseAverageBits)).toEqual([undefined, 16, 16, 17, 20, 20, undefined]);
});

test("what is no list of chunks is refused", async () => {
  const good = { averageBits: 16, sizes: [20_000], digests: Buffer.alloc(32) };
  expect(knowChunks([good], "known").averageBits).toBe(16);
  for (const bad of [
    { ...good, averageBits: 15 },
    { ...good, averageBits: 21 },
    { ...good, sizes: [0] },
    { ...good, sizes: [256 * 1024 + 1] },
    { ...good, sizes: [20_000, 20_000] },
    { ...good, digests: Buffer.alloc(31) },
  ]) {
    expect(await faultOf(() => knowChunks([bad], "known"))).toMatchObject({
      code: "INVALID_ARGUMENT",
      details: { field: "known" },
    });
  }
  expect(await faultOf(() => knowChunks([good, { ...good, averageBits: 17 }], "known"))).toMatchObject({
    code: "INVALID_ARGUMENT",
  });
});
