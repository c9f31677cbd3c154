import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";

/** Lets one through at a time, in order of arrival. */
export interface Turnstile {
  /** Waits for one's turn. `IO_ERROR` when it did not come in time: something holds the store and waits for itself. */
  enter(): Promise<void>;
  /** Ends one's turn. */
  leave(): void;
}

/** The waiting line before the one connection that SQLite has. */
export function createTurnstile(options: { readonly clock: Clock; readonly timeoutMs: number }): Turnstile {
  const waiting: (() => void)[] = [];
  let isTaken = false;

  const wait = (): Promise<void> =>
    new Promise((resolve, reject) => {
      const given = new AbortController();
      const pass = (): void => {
        given.abort();
        resolve();
      };
      waiting.push(pass);
      options.clock.sleep(options.timeoutMs, { signal: given.signal }).then(
        () => {
          const at = waiting.indexOf(pass);
          if (at >= 0) waiting.splice(at, 1);
          reject(
            new Fault("IO_ERROR", `the store was busy for ${options.timeoutMs} ms`, { retryable: true }),
          );
        },
        () => undefined,
      );
    });

  return {
    enter: async () => {
      if (isTaken) return await wait();
      isTaken = true;
    },
    leave: () => {
      const next = waiting.shift();
      if (next) next();
      else isTaken = false;
    },
  };
}
