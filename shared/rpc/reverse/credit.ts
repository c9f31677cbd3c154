import type { Fault } from "../../fault/fault.ts";
import type { Budget } from "./budget.ts";

/** What a message costs beside its body, in bytes: frames and the queue's own memory. */
export const messageOverheadBytes = 64;

/** The first credit of a call, in bytes, each way. */
export const firstCreditBytes: number = 256 * 1024;

/** The first credit of a stream that stays open, in bytes. */
export const openStreamCreditBytes: number = 16 * 1024;

/** The largest credit of a call, in bytes; never above the stream's window, so that no frame waits behind data. */
export const maxCreditBytes: number = 8 * 1024 * 1024;

/** The largest credit of a stream that stays open, in bytes: what its reader left unread may be many small messages. */
export const maxOpenStreamCreditBytes: number = 1024 * 1024;

/** The first credit of a call, each way: less for streams that stay open. */
export function firstCreditOf(remainingMs: number): number {
  return Number.isFinite(remainingMs) ? firstCreditBytes : openStreamCreditBytes;
}

/** The largest credit of a call, each way: less for streams that stay open. */
export function mostCreditOf(remainingMs: number): number {
  return Number.isFinite(remainingMs) ? maxCreditBytes : maxOpenStreamCreditBytes;
}

function costOf(lengthBytes: number): number {
  return lengthBytes + messageOverheadBytes;
}

/** The sender's side of one direction of a call. */
export interface SendCredit {
  /** Resolves when a message of `lengthBytes` may be sent, and takes its cost; rejects once closed. */
  take(lengthBytes: number): Promise<void> | undefined;
  /** The receiver took bytes. */
  grant(bytes: number, windowBytes: number): void;
  /** Nothing more is sent: whoever waits gets the fault. */
  close(fault: Fault): void;
}

/** Credit of a sender that begins with `firstBytes`. One message waits at a time. */
export function createSendCredit(firstBytes: number): SendCredit {
  let windowBytes = firstBytes;
  let freeBytes = firstBytes;
  let closed: Fault | undefined;
  let waiting: { readonly cost: number; readonly done: PromiseWithResolvers<void> } | undefined;
  // A message larger than the whole credit goes alone: when nothing else is in flight.
  const fits = (cost: number): boolean => cost <= freeBytes || freeBytes >= windowBytes;
  return {
    take: (lengthBytes) => {
      if (closed) return Promise.reject(closed);
      const cost = costOf(lengthBytes);
      if (!waiting && fits(cost)) {
        freeBytes -= cost;
        return undefined;
      }
      waiting = { cost, done: Promise.withResolvers<void>() };
      return waiting.done.promise;
    },
    grant: (bytes, window) => {
      freeBytes += bytes;
      if (window > 0) windowBytes = window;
      if (!waiting || !fits(waiting.cost)) return;
      freeBytes -= waiting.cost;
      waiting.done.resolve();
      waiting = undefined;
    },
    close: (fault) => {
      if (closed) return;
      closed = fault;
      waiting?.done.reject(fault);
      waiting = undefined;
    },
  };
}

/** What a receiving queue needs. */
export interface ReceiveQueueOptions {
  /** What the sender may send before the first grant. */
  readonly firstBytes: number;
  /** What the sender may send at once at the most; 8 MiB by default. */
  readonly mostBytes?: number;
  /** What its growth is taken from. */
  readonly budget: Budget;
  /** Tells the sender that it may send more. */
  readonly grant: (bytes: number, windowBytes: number) => void;
}

/** The receiver's side of one direction of a call: a queue that its sender cannot overfill. */
export interface ReceiveQueue extends AsyncIterable<Uint8Array> {
  /** A message arrived. Returns false when the sender sent more than it was granted. */
  push(message: Uint8Array): boolean;
  /** No more messages: readers get what is left, then the end or the fault. */
  close(fault?: Fault): void;
  /** Drops what is held and what arrives later; readers get the end or the fault. */
  discard(fault?: Fault): void;
  /** Bytes held now. */
  readonly heldBytes: number;
}

/** A receiving queue. Its credit doubles as its reader takes bytes, as far as the budget goes. */
export function createReceiveQueue(options: ReceiveQueueOptions): ReceiveQueue {
  return new CreditQueue(options);
}

class CreditQueue implements ReceiveQueue {
  readonly #options: ReceiveQueueOptions;
  readonly #messages: Uint8Array[] = [];
  readonly #mostBytes: number;
  #windowBytes: number;
  #heldBytes = 0;
  /** Taken by the reader, not yet granted again. */
  #owedBytes = 0;
  /** Taken by the reader since the window grew last. */
  #usedBytes = 0;
  #closed = false;
  #released = false;
  #fault: Fault | undefined;
  #reader: PromiseWithResolvers<IteratorResult<Uint8Array, undefined>> | undefined;

  constructor(options: ReceiveQueueOptions) {
    this.#options = options;
    this.#windowBytes = options.firstBytes;
    this.#mostBytes = options.mostBytes ?? maxCreditBytes;
    options.budget.take(options.firstBytes);
  }

  get heldBytes(): number {
    return this.#heldBytes;
  }

  push(message: Uint8Array): boolean {
    if (this.#closed) return true;
    const reader = this.#reader;
    if (reader) {
      this.#reader = undefined;
      this.#took(costOf(message.byteLength));
      reader.resolve({ done: false, value: message });
      return true;
    }
    const alone = this.#messages.length === 0;
    this.#messages.push(message);
    this.#heldBytes += costOf(message.byteLength);
    return alone || this.#heldBytes <= this.#windowBytes;
  }

  close(fault?: Fault): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#fault = fault;
    if (this.#messages.length === 0) this.#release();
    const reader = this.#reader;
    this.#reader = undefined;
    if (!reader) return;
    if (fault) reader.reject(fault);
    else reader.resolve({ done: true, value: undefined });
  }

  discard(fault?: Fault): void {
    this.#messages.length = 0;
    this.#heldBytes = 0;
    this.close(fault);
    this.#release();
  }

  #release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#options.budget.give(this.#windowBytes);
  }

  #took(costBytes: number): void {
    this.#owedBytes += costBytes;
    this.#usedBytes += costBytes;
    if (this.#closed) return;
    if (this.#owedBytes * 4 >= this.#windowBytes) this.#grant();
  }

  #grant(): void {
    if (this.#closed || this.#owedBytes === 0) return;
    let bytes = this.#owedBytes;
    this.#owedBytes = 0;
    if (this.#usedBytes >= this.#windowBytes && this.#windowBytes < this.#mostBytes) {
      this.#usedBytes = 0;
      const wanted = Math.min(this.#windowBytes, this.#mostBytes - this.#windowBytes);
      const grown = this.#options.budget.tryTake(wanted);
      this.#windowBytes += grown;
      bytes += grown;
    }
    this.#options.grant(bytes, this.#windowBytes);
  }

  #next(): Promise<IteratorResult<Uint8Array, undefined>> {
    const message = this.#messages.shift();
    if (message) {
      const cost = costOf(message.byteLength);
      this.#heldBytes -= cost;
      this.#took(cost);
      if (this.#closed && this.#messages.length === 0) this.#release();
      return Promise.resolve({ done: false, value: message });
    }
    if (this.#closed) {
      return this.#fault ? Promise.reject(this.#fault) : Promise.resolve({ done: true, value: undefined });
    }
    const reader = Promise.withResolvers<IteratorResult<Uint8Array, undefined>>();
    this.#reader = reader;
    if (this.#owedBytes > 0) this.#grantWhenIdle();
    return reader.promise;
  }

  /** A sender may wait for little more than it has: an idle reader gives all back, unless the end is on its way. */
  #grantWhenIdle(): void {
    setImmediate(() => {
      if (this.#reader) this.#grant();
    });
  }

  [Symbol.asyncIterator](): AsyncIterator<Uint8Array, undefined> {
    return {
      next: () => this.#next(),
      return: async () => {
        this.discard();
        return { done: true, value: undefined };
      },
    };
  }
}
