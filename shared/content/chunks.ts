import { Fault } from "../fault/fault.ts";
import { averageBitsRange, chunkSizes, findCut } from "./cut.ts";
import { digestFromBytes, digestOf, digestToBytes, type Digest } from "./digest.ts";

/** What is cut: `OpenFile` is one. */
export interface ChunkSource {
  /** Reads into all of `buffer` from `position` on; gives the count, less only at the end. */
  read(buffer: Uint8Array, position: number): Promise<number>;
}

/** A piece of a file, cut where its content says so. */
export interface Chunk {
  /** Where it begins in the file. */
  readonly offset: number;
  /** Its content, until the next chunk is taken. */
  readonly bytes: Uint8Array;
}

/** How a file is cut. */
export interface CutOptions {
  /** The average size of a chunk is two to this power. */
  readonly averageBits: number;
  /** The first byte; 0 by default. */
  readonly offset?: number;
  readonly signal: AbortSignal;
}

/** So much is read at once, in bytes: a turn of the event loop is as long as cutting it takes. */
const readBytes = 1024 * 1024;

/** The chunks of a file one behind the other, from an offset to its end. Holds one chunk and about 1 MiB in memory. */
export async function* cutChunks(
  source: ChunkSource,
  { averageBits, offset = 0, signal }: CutOptions,
): AsyncGenerator<Chunk, void> {
  const { maxBytes } = chunkSizes(averageBits);
  const buffer = Buffer.allocUnsafeSlow(maxBytes + readBytes);
  let [start, end, isAtEnd] = [0, 0, false];
  for (let position = offset; ;) {
    if (!isAtEnd && end - start < maxBytes) {
      buffer.copyWithin(0, start, end);
      [start, end] = [0, end - start];
      const room = buffer.subarray(end);
      const count = await source.read(room, position + end);
      signal.throwIfAborted();
      isAtEnd = count < room.byteLength;
      end += count;
    }
    if (start === end) return;
    const sizeBytes = findCut(buffer, { start, end }, averageBits);
    yield { offset: position, bytes: buffer.subarray(start, start + sizeBytes) };
    start += sizeBytes;
    position += sizeBytes;
  }
}

/** The chunks of a file as they are told to the other side. */
export interface ChunkList {
  /** The average size of a chunk is two to this power. */
  readonly averageBits: number;
  /** Bytes of each chunk. */
  readonly sizes: readonly number[];
  /** The digest of each, 32 bytes, one behind the other. */
  readonly digests: Uint8Array;
}

/** Smaller files are sent whole: to compare would take as long. In bytes. */
export const chunkedFromBytes: number = 2 * 1024 * 1024;

/** Larger files are sent whole: their lists would not fit into one message. In bytes. */
const chunkedToBytes = 64 * 2 ** 30;

/** A list has about so many chunks up to the largest average. */
const wantedChunks = 8 * 1024;

/** How a file of this size is cut; undefined for one that is sent whole. */
export function chooseAverageBits(sizeBytes: number): number | undefined {
  if (sizeBytes < chunkedFromBytes || sizeBytes > chunkedToBytes) return undefined;
  const { min, max } = averageBitsRange;
  return Math.min(max, Math.max(min, Math.ceil(Math.log2(sizeBytes / wantedChunks))));
}

/** The chunks of a file in lists of up to `perList`, one behind the other. */
export async function* listChunks(
  source: ChunkSource,
  { perList, ...options }: CutOptions & { readonly perList: number },
): AsyncGenerator<ChunkList, void> {
  const { averageBits } = options;
  let sizes: number[] = [];
  let digests: Buffer[] = [];
  for await (const { bytes } of cutChunks(source, options)) {
    sizes.push(bytes.byteLength);
    digests.push(digestToBytes(digestOf(bytes)));
    if (sizes.length < perList) continue;
    yield { averageBits, sizes, digests: Buffer.concat(digests) };
    [sizes, digests] = [[], []];
  }
  if (sizes.length > 0) yield { averageBits, sizes, digests: Buffer.concat(digests) };
}

/** More chunks than so many are not told: a list of them fits into one message. */
export const maxListedChunks = 100_000;

/** What `listWhole` takes. */
export interface ListWholeOptions {
  readonly sizeBytes: number;
  readonly signal: AbortSignal;
  /** Hears that it goes on. */
  readonly onRead: () => void;
}

/** All chunks of a file; undefined for one that is better sent whole. */
export async function listWhole(
  source: ChunkSource,
  { sizeBytes, signal, onRead }: ListWholeOptions,
): Promise<ChunkList | undefined> {
  const averageBits = chooseAverageBits(sizeBytes);
  if (averageBits === undefined) return undefined;
  const sizes: number[] = [];
  const digests: Uint8Array[] = [];
  for await (const list of listChunks(source, { averageBits, perList: 1024, signal })) {
    onRead();
    sizes.push(...list.sizes);
    digests.push(list.digests);
    if (sizes.length > maxListedChunks) return undefined;
  }
  return { averageBits, sizes, digests: Buffer.concat(digests) };
}

/** Where a chunk stands in the file that was listed. */
export interface KnownChunk {
  readonly offset: number;
  readonly sizeBytes: number;
}

/** The chunks that the other side holds. */
export interface KnownChunks {
  readonly averageBits: number;
  /** Where the other side finds a chunk of this content. */
  find(digest: Digest): KnownChunk | undefined;
}

/** Finds the chunks of lists that follow one another; a list that cannot be one is `INVALID_ARGUMENT` with `details.field`. */
export function knowChunks(lists: readonly ChunkList[], field: string): KnownChunks {
  const averageBits = lists[0]?.averageBits ?? averageBitsRange.min;
  const { maxBytes } = chunkSizes(averageBits);
  const found = new Map<Digest, KnownChunk>();
  let offset = 0;
  for (const list of lists) {
    requireList(list, { averageBits, field });
    for (const [index, sizeBytes] of list.sizes.entries()) {
      if (sizeBytes < 1 || sizeBytes > maxBytes) throw noList(`a chunk of ${sizeBytes} bytes`, field);
      const digest = digestFromBytes(list.digests.subarray(index * 32, index * 32 + 32), field);
      if (!found.has(digest)) found.set(digest, { offset, sizeBytes });
      offset += sizeBytes;
    }
  }
  return { averageBits, find: (digest) => found.get(digest) };
}

function requireList(
  list: ChunkList,
  { averageBits, field }: { readonly averageBits: number; readonly field: string },
): void {
  const { min, max } = averageBitsRange;
  if (list.averageBits !== averageBits || averageBits < min || averageBits > max)
    throw noList(`an average of 2 to the ${list.averageBits}`, field);
  if (list.digests.byteLength !== list.sizes.length * 32)
    throw noList(`${list.sizes.length} sizes and ${list.digests.byteLength} bytes of digests`, field);
}

function noList(what: string, field: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${field} is no list of chunks: ${what}`, { details: { field } });
}
