import type { Readable, Writable } from "node:stream";
import { Fault } from "../fault/fault.ts";
import { bytesOf, type Encoded } from "./encoded.ts";
import { maxEnvelopeBytes } from "./limits.ts";

/**
 * Frames of many calls on one pipe: length (of what follows), number of the call, frame; both numbers are 32 bits, big
 * endian. A frame without bytes cancels its call.
 */
const headBytes = 8;

/** A frame and the call that it belongs to. */
export interface NumberedFrame {
  readonly number: number;
  readonly bytes: Buffer;
}

/** Writes one frame; the credit of the calls bounds what a pipe holds. */
export function writeFrame(output: Writable, number: number, frame: Encoded | undefined): void {
  if (output.destroyed || output.writableEnded) return;
  const lengthBytes = frame?.byteLength ?? 0;
  const bytes = Buffer.allocUnsafe(headBytes + lengthBytes);
  bytes.writeUInt32BE(4 + lengthBytes, 0);
  bytes.writeUInt32BE(number, 4);
  frame?.copy(bytes, headBytes);
  output.write(bytes);
}

/** Reads frames until the end of the pipe. `INVALID_ARGUMENT` when what comes is no frame, `TOO_LARGE` above the limit. */
export async function* readFrames(input: Readable): AsyncGenerator<NumberedFrame> {
  const pieces = new Pieces();
  for await (const chunk of input) {
    if (!Buffer.isBuffer(chunk)) throw new Fault("INVALID_ARGUMENT", "the pipe carries text, not frames");
    pieces.add(chunk);
    for (let frame = readFrame(pieces); frame; frame = readFrame(pieces)) yield frame;
  }
}

function readFrame(pieces: Pieces): NumberedFrame | undefined {
  const head = pieces.peek(headBytes);
  if (!head) return undefined;
  const lengthBytes = head.readUInt32BE(0);
  if (lengthBytes < 4) throw new Fault("INVALID_ARGUMENT", "what came over the pipe is no frame");
  if (lengthBytes > maxEnvelopeBytes) {
    throw new Fault("TOO_LARGE", `a frame of ${lengthBytes} bytes is larger than ${maxEnvelopeBytes}`, {
      details: { limit: maxEnvelopeBytes, actual: lengthBytes },
    });
  }
  const whole = pieces.take(4 + lengthBytes);
  return whole && { number: whole.readUInt32BE(4), bytes: whole.subarray(headBytes) };
}

/** Bytes that arrived in pieces, put together once for each frame. */
class Pieces {
  #pieces: Buffer[] = [];
  #sizeBytes = 0;

  add(piece: Buffer): void {
    this.#pieces.push(piece);
    this.#sizeBytes += piece.byteLength;
  }

  peek(sizeBytes: number): Buffer | undefined {
    if (this.#sizeBytes < sizeBytes) return undefined;
    const [first] = this.#pieces;
    if (first && first.byteLength >= sizeBytes) return first;
    this.#join();
    return this.#pieces[0];
  }

  take(sizeBytes: number): Buffer | undefined {
    if (this.#sizeBytes < sizeBytes) return undefined;
    if ((this.#pieces[0]?.byteLength ?? 0) < sizeBytes) this.#join();
    const [first] = this.#pieces;
    if (!first) return undefined;
    if (first.byteLength === sizeBytes) this.#pieces.shift();
    else this.#pieces[0] = first.subarray(sizeBytes);
    this.#sizeBytes -= sizeBytes;
    return first.subarray(0, sizeBytes);
  }

  #join(): void {
    this.#pieces = [bytesOf(Buffer.concat(this.#pieces, this.#sizeBytes))];
  }
}
