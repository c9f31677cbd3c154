import type { Socket } from "node:net";
import { setImmediate } from "node:timers/promises";

/** What is wrong with one direction of the line; read anew at every step, so a change holds at once. */
export interface LineFaults {
  stalled: boolean;
  swallows: boolean;
  delayMs: number;
  bytesPerSecond: number | undefined;
  maxWriteBytes: number | undefined;
  /** One rate for every connection together. */
  shared: SharedRate | undefined;
}

/** A rate that several pipes share: each in its turn. */
export class SharedRate {
  readonly bytesPerSecond: number;
  #turn: Promise<void> = Promise.resolve();

  constructor(bytesPerSecond: number) {
    this.bytesPerSecond = bytesPerSecond;
  }

  /** Resolves when so many bytes have had their time on the line. */
  take(bytes: number): Promise<void> {
    const ms = (bytes / this.bytesPerSecond) * 1000;
    this.#turn = this.#turn.then(() => new Promise((resolve) => void setTimeout(resolve, ms)));
    return this.#turn;
  }
}

/** What went through one direction, over all connections. */
export interface LineCounts {
  /** Written to the far side. */
  bytes: number;
  /** Read and dropped. */
  swallowedBytes: number;
}

/** One direction of one connection. */
export interface PipeOptions {
  readonly from: Socket;
  readonly to: Socket;
  readonly faults: LineFaults;
  readonly counts: LineCounts;
}

interface Piece {
  /** `undefined` is the end of the direction. */
  readonly bytes: Buffer | undefined;
  readonly dueAt: number;
}

/** Bytes on the line: as many as a delay of 500 ms holds at 128 MB/s; beyond that the sender is not read. */
const maxOnLineBytes = 64 * 1024 * 1024;

/** Carries bytes one way in their order, under the faults of the line. Ends by itself when its sockets are gone. */
export class Pipe {
  readonly #options: PipeOptions;
  readonly #line: Piece[] = [];
  #onLineBytes = 0;
  #ended = false;
  #wake: (() => void) | undefined;

  constructor(options: PipeOptions) {
    this.#options = options;
    const { from, to } = options;
    from.on("data", (bytes: Buffer) => this.#take(bytes));
    from.on("end", () => this.#put(undefined));
    to.on("drain", () => this.changed());
    to.on("close", () => this.changed());
  }

  /** Looks at the faults again. */
  changed(): void {
    const { from, faults } = this.#options;
    if (faults.stalled || this.#onLineBytes > maxOnLineBytes) from.pause();
    else from.resume();
    this.#wake?.();
  }

  /** Sends the end of this direction behind what is on the line; what comes later is dropped. */
  halfClose(): void {
    this.#put(undefined);
  }

  /** Carries until the far socket is gone or the direction has ended. */
  async run(): Promise<void> {
    const { to, faults } = this.#options;
    while (!to.destroyed) {
      const piece = this.#line[0];
      const waitMs = piece === undefined ? undefined : piece.dueAt - performance.now();
      if (piece === undefined || faults.stalled || to.writableNeedDrain) await this.#sleep(undefined);
      else if (waitMs !== undefined && waitMs > 0) await this.#sleep(waitMs);
      else if (piece.bytes === undefined) return void to.end();
      else await this.#write(piece.bytes);
    }
  }

  #take(bytes: Buffer): void {
    const { faults, counts } = this.#options;
    if (faults.swallows || this.#ended) counts.swallowedBytes += bytes.length;
    else this.#put(bytes);
  }

  #put(bytes: Buffer | undefined): void {
    const { faults } = this.#options;
    if (this.#ended || (bytes === undefined && faults.swallows)) return;
    this.#ended = bytes === undefined;
    this.#line.push({ bytes, dueAt: performance.now() + faults.delayMs });
    this.#onLineBytes += bytes?.length ?? 0;
    this.changed();
  }

  async #write(bytes: Buffer): Promise<void> {
    const { to, faults, counts } = this.#options;
    const { maxWriteBytes, shared } = faults;
    const bytesPerSecond = shared?.bytesPerSecond ?? faults.bytesPerSecond;
    // At a rate, fifty writes a second.
    const rated = bytesPerSecond === undefined ? bytes.length : Math.max(1, Math.ceil(bytesPerSecond / 50));
    const count = Math.min(bytes.length, rated, maxWriteBytes ?? bytes.length);
    const [first] = this.#line;
    if (count === bytes.length) this.#line.shift();
    else if (first) this.#line[0] = { bytes: bytes.subarray(count), dueAt: first.dueAt };
    this.#onLineBytes -= count;
    counts.bytes += count;
    to.write(bytes.subarray(0, count));
    if (this.#options.from.isPaused()) this.changed();
    if (shared) await shared.take(count);
    else if (bytesPerSecond !== undefined) await this.#rest((count / bytesPerSecond) * 1000);
    else if (maxWriteBytes !== undefined) await setImmediate();
  }

  /** Waits the whole time, whatever changes meanwhile. */
  #rest(ms: number): Promise<void> {
    return new Promise((resolve) => void setTimeout(resolve, ms));
  }

  /** Waits until something changed, or for the time. */
  #sleep(ms: number | undefined): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(() => this.#wake?.(), ms);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
    });
  }
}
