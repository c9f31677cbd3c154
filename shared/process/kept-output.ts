/** How much of a stream is kept. */
export interface KeptLimits {
  /** Bytes kept from the beginning. */
  readonly headBytes: number;
  /** Bytes kept from the end. */
  readonly tailBytes: number;
}

/** What is kept of a command's output unless something else is said: 64 KiB of its beginning, 192 KiB of its end. */
export const outputLimits: KeptLimits = { headBytes: 64 * 1024, tailBytes: 192 * 1024 };

/** What was kept of a stream, byte for byte. */
export interface KeptOutput {
  /** The beginning; all of it when nothing was left out. */
  readonly head: Buffer;
  /** The end; empty when nothing was left out. */
  readonly tail: Buffer;
  /** Bytes that went by. */
  readonly totalBytes: number;
  /** Whether bytes between head and tail were left out. */
  readonly truncated: boolean;
}

/** Keeps beginning and end of a stream in bounded memory. */
export class OutputKeeper {
  readonly #limits: KeptLimits;
  readonly #head: Buffer[] = [];
  #headBytes = 0;
  /** A ring; its memory is taken when the head is full. */
  #ring: Buffer | undefined;
  #ringAt = 0;
  #totalBytes = 0;

  constructor(limits: KeptLimits = outputLimits) {
    this.#limits = limits;
  }

  /** Takes the next bytes; the chunk stays the caller's. */
  push(chunk: Uint8Array): void {
    this.#totalBytes += chunk.byteLength;
    const room = this.#limits.headBytes - this.#headBytes;
    if (room > 0) {
      const part = Buffer.from(chunk.subarray(0, room));
      this.#head.push(part);
      this.#headBytes += part.byteLength;
    }
    if (chunk.byteLength > room) this.#keepTail(room > 0 ? chunk.subarray(room) : chunk);
  }

  /** What was kept so far. */
  take(): KeptOutput {
    const head = Buffer.concat(this.#head, this.#headBytes);
    const behind = this.#totalBytes - this.#headBytes;
    const tail = this.#readRing(behind);
    const truncated = behind > this.#limits.tailBytes;
    if (truncated) return { head, tail, totalBytes: this.#totalBytes, truncated };
    return {
      head: Buffer.concat([head, tail]),
      tail: Buffer.alloc(0),
      totalBytes: this.#totalBytes,
      truncated,
    };
  }

  #keepTail(bytes: Uint8Array): void {
    const size = this.#limits.tailBytes;
    if (size === 0) return;
    this.#ring ??= Buffer.allocUnsafe(size);
    const last = bytes.byteLength > size ? bytes.subarray(bytes.byteLength - size) : bytes;
    // What was skipped moves the ring on as if it had been written.
    const start = (this.#ringAt + bytes.byteLength - last.byteLength) % size;
    const first = Math.min(last.byteLength, size - start);
    this.#ring.set(last.subarray(0, first), start);
    this.#ring.set(last.subarray(first), 0);
    this.#ringAt = (start + last.byteLength) % size;
  }

  #readRing(behind: number): Buffer {
    const ring = this.#ring;
    if (!ring) return Buffer.alloc(0);
    if (behind <= ring.byteLength) return Buffer.from(ring.subarray(0, behind));
    return Buffer.concat([ring.subarray(this.#ringAt), ring.subarray(0, this.#ringAt)]);
  }
}
