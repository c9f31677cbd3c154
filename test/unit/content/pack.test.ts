import { randomBytes } from "node:crypto";
import { zstdCompressSync } from "node:zlib";
import { expect, test } from "vitest";
import { createPacker, maxPieceBytes, unpack } from "../../../shared/content/pack.ts";
import { faultOf } from "../../support/fault-of.ts";

const kibi = 1024;
const text = Buffer.alloc(256 * kibi, "a line that is there again and again\n");

test("a piece that becomes smaller is packed, and is the same again", async () => {
  const packer = createPacker();
  for (const piece of [text, text.subarray(7, 10_000), Buffer.alloc(maxPieceBytes)]) {
    const packed = await packer.pack(piece);
    if (!packed) throw new Error("it was not packed");
    expect(packed.byteLength).toBeLessThan(piece.byteLength / 2);
    expect((await unpack(packed, piece.byteLength)).equals(piece)).toBe(true);
  }
});

test("what does not become smaller goes as it is, and the next try comes after 8 MiB", async () => {
  const packer = createPacker();
  expect(await packer.pack(randomBytes(256 * kibi))).toBeUndefined();
  for (let piece = 0; piece < 32; piece += 1) expect(await packer.pack(text)).toBeUndefined();
  expect(await packer.pack(text)).toBeDefined();
  // A piece whose begin promises more than it holds.
  const mixed = Buffer.concat([text.subarray(0, 16 * kibi), randomBytes(240 * kibi)]);
  expect(await createPacker().pack(mixed)).toBeUndefined();
  expect(await createPacker().pack(text.subarray(0, 4 * kibi - 1))).toBeUndefined();
  expect(await createPacker().pack(Buffer.alloc(maxPieceBytes + 1))).toBeUndefined();
});

test("a piece that becomes longer than it says, shorter, or is none at all is refused", async () => {
  const bomb = zstdCompressSync(Buffer.alloc(64 * kibi * kibi));
  expect(bomb.byteLength).toBeLessThan(8 * kibi);
  const packed = zstdCompressSync(text);
  for (const [bytes, sizeBytes] of [
    [bomb, 256 * kibi],
    [bomb, maxPieceBytes],
    [bomb, 64 * kibi * kibi],
    [packed, text.byteLength - 1],
    [packed, text.byteLength + 1],
    [packed, 0],
    [packed.subarray(0, 20), text.byteLength],
    [Buffer.from("no frame"), 8],
    [Buffer.alloc(0), 8],
  ] as const) {
    expect(await faultOf(unpack(bytes, sizeBytes))).toMatchObject({
      code: "INTEGRITY_FAILURE",
      details: { expected: sizeBytes },
    });
  }
});
