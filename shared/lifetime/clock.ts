import { Fault } from "../fault/fault.ts";

/** What a wait takes. */
export interface WaitOptions {
  /** Ends the wait; it then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** Where time comes from. Handed in, so that tests bring their own. */
export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Resolves after `ms` milliseconds, or rejects with the signal's reason. */
  sleep(ms: number, options?: WaitOptions): Promise<void>;
  /** Runs `then` after `ms` milliseconds, unless what it returns is called before. For what every call needs: it is cheap. */
  after(ms: number, then: () => void): () => void;
}

const longestTimerMs = 2_147_483_647;

/** The machine's own clock. */
export const systemClock: Clock = {
  now: () => Date.now(),
  sleep: (ms, options) => sleepOnce(timerMs(ms), options?.signal),
  after: (ms, then) => {
    const timer = setTimeout(then, timerMs(ms));
    return () => clearTimeout(timer);
  },
};

function timerMs(ms: number): number {
  return Math.min(Math.max(0, ms), longestTimerMs);
}

function sleepOnce(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return void reject(signal.reason);
    const onAbort = (): void => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** A deadline that can be given back. */
export interface Deadline extends Disposable {
  /** Aborts with the fault when the time is over, or with the outer signal's reason. */
  readonly signal: AbortSignal;
}

/** What `startDeadline` takes. */
export interface DeadlineOptions {
  /** The longest time, in milliseconds. */
  readonly timeoutMs: number;
  /** Also ends the deadline's signal, with its own reason. */
  readonly signal?: AbortSignal | undefined;
  /** Where time comes from; the machine's clock by default. */
  readonly clock?: Clock;
  /** The reason of the abort; `DEADLINE_EXCEEDED` by default. */
  readonly fault?: () => Fault;
}

/** Starts a deadline: its signal aborts after `timeoutMs` unless it is disposed before. The caller disposes it. */
export function startDeadline(options: DeadlineOptions): Deadline {
  const clock = options.clock ?? systemClock;
  const timer = new AbortController();
  const reason =
    options.fault ?? (() => new Fault("DEADLINE_EXCEEDED", `the deadline of ${options.timeoutMs} ms passed`));
  const stop = clock.after(options.timeoutMs, () => timer.abort(reason()));
  const signal = options.signal ? AbortSignal.any([options.signal, timer.signal]) : timer.signal;
  return { signal, [Symbol.dispose]: stop };
}

/** `promise`, or a rejection with the signal's reason when that comes first. The promise itself goes on. */
export function raceSignal<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  if (signal.aborted) {
    promise.catch(() => undefined);
    return Promise.reject(signal.reason);
  }
  return new Promise<T>((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    const leave = (): void => signal.removeEventListener("abort", onAbort);
    promise.then(leave, leave);
    promise.then(resolve, reject);
  });
}

/**
 * The items of `source` until it ends, or a failure with the signal's reason when that comes first. A source that does not
 * heed the signal, and one that is left early, is told and not waited for.
 */
export async function* raceEach<T>(source: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T, void> {
  const iterator = source[Symbol.asyncIterator]();
  let isOver = false;
  try {
    for (;;) {
      const next = await raceSignal(iterator.next(), signal);
      isOver = next.done === true;
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    if (!isOver) iterator.return?.().catch(() => undefined);
  }
}
