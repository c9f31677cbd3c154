import { hash } from "node:crypto";

/** The smallest and the largest average of a chunk, as powers of two in bytes: 64 KiB and 1 MiB. */
export const averageBitsRange = { min: 16, max: 20 } as const;

/** How large chunks of one average may be, in bytes. */
export interface ChunkSizes {
  /** Only the last chunk of a file is smaller. */
  readonly minBytes: number;
  readonly averageBytes: number;
  readonly maxBytes: number;
}

/** The sizes that belong to an average. */
export function chunkSizes(averageBits: number): ChunkSizes {
  const averageBytes = 2 ** averageBits;
  return { minBytes: averageBytes / 4, averageBytes, maxBytes: averageBytes * 4 };
}

/** A random number for each byte. Both ends must have the same: other numbers mean other chunks, and nothing in common. */
const gear = makeGear();

function makeGear(): Int32Array {
  const numbers = new Int32Array(256);
  for (let byte = 0; byte < numbers.length; byte += 1) {
    numbers[byte] = hash("sha256", `gear ${byte}`, "buffer").readInt32BE(0);
  }
  return numbers;
}

/**
 * The size of the chunk that begins at `start`, in bytes. It ends where a sum over the 32 bytes before has some zeros in
 * front, so that the same bytes end at the same place wherever they stand in a file; the closer to the average, the
 * fewer zeros do. Without at least `maxBytes` bytes from `start` to `end` the result is right only at a file's end.
 */
export function findCut(bytes: Uint8Array, { start, end }: ByteRange, averageBits: number): number {
  const { minBytes, averageBytes, maxBytes } = chunkSizes(averageBits);
  const limit = Math.min(end, start + maxBytes);
  const first = start + minBytes;
  if (limit <= first) return limit - start;
  // One zero more before the average and one fewer behind it: most chunks are near it then.
  const strict = -1 << (32 - averageBits - 1);
  const loose = -1 << (32 - averageBits + 1);
  const middle = Math.min(limit, start + averageBytes);
  let sum = 0;
  let at = first;
  for (; at < middle; at += 1) {
    sum = ((sum << 1) + (gear[bytes[at] ?? 0] ?? 0)) | 0;
    if ((sum & strict) === 0) return at + 1 - start;
  }
  for (; at < limit; at += 1) {
    sum = ((sum << 1) + (gear[bytes[at] ?? 0] ?? 0)) | 0;
    if ((sum & loose) === 0) return at + 1 - start;
  }
  return limit - start;
}

/** From the first byte up to the one before `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}
