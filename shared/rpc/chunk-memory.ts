/**
 * Large pieces of memory, given back as soon as they are no longer needed. Left to the garbage collector they cost more
 * than all the rest of a transfer: each makes the next full collection come sooner, and comes from fresh pages.
 */

/** Smaller pieces share memory, or are not worth the trouble. */
const minBytes = 32 * 1024;
/** What may stand around bytes in memory of their own: an envelope. */
const maxAroundBytes = 1024;

/**
 * Gives the memory of `bytes` back at once when nothing else lies in it, and does nothing otherwise. The caller says that
 * nobody looks at them any more: they, and every view of the same memory, are empty afterwards.
 */
export function freeMemory(bytes: Uint8Array): void {
  const { buffer, byteLength } = bytes;
  if (byteLength < minBytes || !(buffer instanceof ArrayBuffer)) return;
  if (buffer.byteLength - byteLength <= maxAroundBytes) buffer.transfer(0);
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

/** Passes on bytes that came from elsewhere: their memory is given back once they were sent. */
export function freeWhenSent(bytes: Uint8Array): void {
  if (bytes.byteLength >= minBytes) releaseWhenSent(bytes, () => freeMemory(bytes));
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
        if (free.length < maxKept) free.push(buffer);
      });
      return chunk;
    },
  };
}
