import { Fault } from "../fault/fault.ts";

/** A queue with a size and one rule for what happens when it is full. */
export interface Queue<T> extends AsyncIterable<T>, Disposable {
  /** Puts an item in; the rule says what a full queue does. Resolves when there was room (rule "wait"). */
  push(item: T): Promise<void>;
  /** No more items: readers get what is left, then the end, or `error`. */
  close(error?: unknown): void;
  /** Items held now. */
  readonly size: number;
}

interface Reader<T> {
  readonly resolve: (result: IteratorResult<T, undefined>) => void;
  readonly reject: (error: unknown) => void;
}

abstract class BaseQueue<T> implements Queue<T> {
  #closed = false;
  #error: unknown;
  #readers: Reader<T>[] = [];

  abstract readonly size: number;
  abstract push(item: T): Promise<void>;
  protected abstract take(): { readonly item: T } | undefined;
  /** What waits for room is let go when the queue ends. */
  protected abstract release(error: unknown): void;

  protected get isClosed(): boolean {
    return this.#closed;
  }

  /** Hands items to whoever waits. */
  protected deliver(): void {
    while (this.#readers.length > 0) {
      const taken = this.take();
      if (!taken) break;
      this.#readers.shift()?.resolve({ done: false, value: taken.item });
    }
    if (!this.#closed || this.size > 0) return;
    const waiting = this.#readers;
    this.#readers = [];
    for (const reader of waiting) this.#finish(reader);
  }

  #finish(reader: Reader<T>): void {
    if (this.#error === undefined) reader.resolve({ done: true, value: undefined });
    else reader.reject(this.#error);
  }

  close(error?: unknown): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#error = error;
    this.release(error ?? new Fault("CANCELLED", "the queue was closed"));
    this.deliver();
  }

  next(): Promise<IteratorResult<T, undefined>> {
    return new Promise((resolve, reject) => {
      this.#readers.push({ resolve, reject });
      this.deliver();
    });
  }

  [Symbol.asyncIterator](): AsyncIterator<T, undefined> {
    return {
      next: () => this.next(),
      return: async () => {
        this[Symbol.dispose]();
        return { done: true, value: undefined };
      },
    };
  }

  /** A reader that left: nothing more is kept. */
  [Symbol.dispose](): void {
    while (this.take()) continue;
    this.close();
  }
}

class WaitQueue<T> extends BaseQueue<T> {
  readonly #limit: number;
  readonly #items: T[] = [];
  readonly #waiting: PromiseWithResolvers<void>[] = [];

  constructor(limit: number) {
    super();
    this.#limit = limit;
  }

  get size(): number {
    return this.#items.length;
  }

  async push(item: T): Promise<void> {
    while (!this.isClosed && this.#items.length >= this.#limit) {
      const room = Promise.withResolvers<void>();
      this.#waiting.push(room);
      await room.promise;
    }
    if (this.isClosed) throw new Fault("CANCELLED", "the reader has left");
    this.#items.push(item);
    this.deliver();
  }

  protected take(): { readonly item: T } | undefined {
    if (this.#items.length === 0) return undefined;
    const [item] = this.#items.splice(0, 1) as [T];
    this.#waiting.shift()?.resolve();
    return { item };
  }

  protected release(): void {
    for (const room of this.#waiting.splice(0)) room.resolve();
  }
}

class CoalescingQueue<T> extends BaseQueue<T> {
  readonly #limit: number;
  readonly #keyOf: (item: T) => string;
  readonly #onOverflow: () => T;
  readonly #items = new Map<string, T>();

  constructor(options: CoalesceOptions<T>) {
    super();
    this.#limit = options.limit;
    this.#keyOf = options.keyOf;
    this.#onOverflow = options.onOverflow;
  }

  get size(): number {
    return this.#items.size;
  }

  async push(item: T): Promise<void> {
    if (this.isClosed) return;
    const key = this.#keyOf(item);
    this.#items.delete(key);
    this.#items.set(key, item);
    if (this.#items.size > this.#limit) {
      this.#items.clear();
      const start = this.#onOverflow();
      this.#items.set(this.#keyOf(start), start);
    }
    this.deliver();
  }

  protected take(): { readonly item: T } | undefined {
    for (const [key, item] of this.#items) {
      this.#items.delete(key);
      return { item };
    }
    return undefined;
  }

  protected release(): void {
    // Nobody ever waits for room here.
  }
}

/** What a coalescing queue needs. */
export interface CoalesceOptions<T> {
  /** Most items held. */
  readonly limit: number;
  /** Items of one key replace each other, the newest last. */
  readonly keyOf: (item: T) => string;
  /** Stands for everything that was dropped when the limit was passed ("start again"). */
  readonly onOverflow: () => T;
}

/** A queue of at most `limit` items whose writer waits for room. A `break` of the reader ends it for the writer too. */
export function createQueue<T>(limit: number): Queue<T> {
  return new WaitQueue<T>(limit);
}

/** A queue that keeps the newest item of each key and, past its limit, one item that says "start again". */
export function createCoalescingQueue<T>(options: CoalesceOptions<T>): Queue<T> {
  return new CoalescingQueue<T>(options);
}
