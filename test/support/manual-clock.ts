import { setImmediate } from "node:timers/promises";
import type { Clock, WaitOptions } from "../../shared/lifetime/clock.ts";

interface Sleeper {
  readonly dueAt: number;
  readonly wake: () => void;
}

/** A clock that stands still until a test moves it. */
export class ManualClock implements Clock {
  #now: number;
  readonly #sleepers = new Set<Sleeper>();

  constructor(startsAt: number = Date.UTC(2030, 0, 1)) {
    this.#now = startsAt;
  }

  now(): number {
    return this.#now;
  }

  sleep(ms: number, options?: WaitOptions): Promise<void> {
    const signal = options?.signal;
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return void reject(signal.reason);
      const onAbort = (): void => {
        this.#sleepers.delete(sleeper);
        reject(signal?.reason);
      };
      const sleeper: Sleeper = {
        dueAt: this.#now + Math.max(0, ms),
        wake: () => {
          signal?.removeEventListener("abort", onAbort);
          resolve();
        },
      };
      this.#sleepers.add(sleeper);
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  after(ms: number, then: () => void): () => void {
    const sleeper: Sleeper = { dueAt: this.#now + Math.max(0, ms), wake: then };
    this.#sleepers.add(sleeper);
    return () => void this.#sleepers.delete(sleeper);
  }

  /** How many sleep: what a test waits for before it moves the clock. */
  get sleepers(): number {
    return this.#sleepers.size;
  }

  /** How long until the next one wakes, in milliseconds; `undefined` when nobody sleeps. */
  get nextInMs(): number | undefined {
    const next = this.#next();
    return next && next.dueAt - this.#now;
  }

  /**
   * Moves the time on and wakes who is due, in the order of their times; one that sleeps again within the span wakes
   * again. Resolves when those who woke had their turn.
   */
  async advance(ms: number): Promise<void> {
    const end = this.#now + ms;
    for (let next = this.#next(); next !== undefined && next.dueAt <= end; next = this.#next()) {
      this.#now = Math.max(this.#now, next.dueAt);
      this.#sleepers.delete(next);
      next.wake();
      await setImmediate();
    }
    this.#now = end;
    await setImmediate();
  }

  #next(): Sleeper | undefined {
    let next: Sleeper | undefined;
    for (const sleeper of this.#sleepers) if (!next || sleeper.dueAt < next.dueAt) next = sleeper;
    return next;
  }
}
