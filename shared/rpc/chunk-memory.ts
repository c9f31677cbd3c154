import { countMoved } from "./collect-young.ts";

/**
 * Large pieces of memory, given back as soon as they are no longer needed. Left to the garbage collector they cost more
 * than all the rest of a transfer: each makes the next full collection come sooner, and comes from fresh pages.
 */

/** Smaller pieces share memory, or are not worth the trouble. */
const minBytes = 32 * 1024;
/** What may stand around bytes in memory of their own: an envelope. */
const maxAroundBytes = 1024;

/** Memory that messages arrived in: whoever takes such a message may say that it is done with it. */
const received = new WeakSet<ArrayBufferLike>();

/** Remembers that `bytes` arrived as a message, in memory that nothing else is kept in. */
export function markReceived(bytes: Uint8Array): void {
  if (!isAlone(bytes)) return;
  received.add(bytes.buffer);
  countMoved(bytes.byteLength);
}

/**
 * Gives the memory of bytes that arrived as a message, or of its bulk field, back at once; bytes from anywhere else are
 * left alone. The caller says that nobody looks at the message any more: it is empty afterwards.
 */
export function freeReceived(bytes: Uint8Array): void {
  const { buffer } = bytes;
  if (received.has(buffer) && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

/** Gives memory back that the caller owns, when nothing else lies in it. */
export function freeAlone(bytes: Uint8Array): void {
  const { buffer } = bytes;
  if (isAlone(bytes) && buffer instanceof ArrayBuffer) buffer.transfer(0);
}

function isAlone({ buffer, byteLength }: Uint8Array): boolean {
  return byteLength >= minBytes && buffer.byteLength - byteLength <= maxAroundBytes;
}

const releases = new WeakMap<Uint8Array, () => void>();

/**
 * Calls `release` once `bytes`, the bulk field of a message, were copied into what is sent: their memory is the caller's
 * again. Of a message that is never sent nothing is heard.
 */
export function releaseWhenSent(bytes: Uint8Array, release: () => void): void {
  let isReleased = false;
  releases.set(bytes, () => {
    if (isReleased) return;
    isReleased = true;
    release();
  });
}

/** For bytes of a message that is passed on: their memory is given back once they were sent. */
export function freeWhenSent(bytes: Uint8Array): void {
  if (received.has(bytes.buffer)) releaseWhenSent(bytes, () => freeReceived(bytes));
}

/** What is to be called once `bytes` were copied, if anything. */
export function findRelease(bytes: Uint8Array): (() => void) | undefined {
  return releases.get(bytes);
}

/** Buffers of one size that are used again once their content was sent. For one sender. */
export interface ChunkPool {
  /** A buffer with anything in it. */
  take(): Buffer;
  /** The first `count` bytes as a chunk to be sent; then the buffer is free again. */
  lend(buffer: Buffer, count: number): Uint8Array;
}

/** Free buffers kept: more are not on their way at once. */
const maxKept = 40;

/** A pool of buffers of `sizeBytes`; it grows to what is on its way at once. */
export function createChunkPool(sizeBytes: number): ChunkPool {
  const free: Buffer[] = [];
  return {
    take: () => free.pop() ?? Buffer.allocUnsafeSlow(sizeBytes),
    lend: (buffer, count) => {
      const chunk = buffer.subarray(0, count);
      releaseWhenSent(chunk, () => {
        countMoved(count);
        if (free.length < maxKept) free.push(buffer);
      });
      return chunk;
    },
  };
}
