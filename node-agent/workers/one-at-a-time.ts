import { raceSignal } from "../../shared/lifetime/clock.ts";

/** Runs work one after the other, in the order of asking. */
export class OneAtATime {
  #last: Promise<unknown> = Promise.resolve();

  /** Runs `work` when all before it has ended; whoever's signal aborts while it waits is passed over. */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const before = this.#last;
    const own = Promise.withResolvers<void>();
    this.#last = Promise.allSettled([before, own.promise]);
    try {
      await raceSignal(before, signal);
      return await work();
    } finally {
      own.resolve();
    }
  }
}
