/** Bounds of a backoff. */
export interface BackoffOptions {
  /** The first ceiling, in milliseconds. */
  readonly firstMs: number;
  /** The highest ceiling, in milliseconds. */
  readonly maxMs: number;
  /** A number in [0, 1); `Math.random` by default. */
  readonly random?: () => number;
}

/** Waits of growing ceilings with full jitter. */
export interface Backoff {
  /** The wait before the next attempt, in milliseconds: uniform between 0 and the attempt's ceiling. */
  next(): number;
  /** Starts over: the next ceiling is the first again. */
  reset(): void;
}

/** Full jitter: attempt n waits uniformly between 0 and the lesser of `maxMs` and `firstMs` × 2^n. */
export function createBackoff(options: BackoffOptions): Backoff {
  const random = options.random ?? Math.random;
  let attempt = 0;
  return {
    next: () => {
      // The exponent is held so that years of attempts never overflow into NaN or Infinity × 0.
      const ceilingMs = Math.min(options.maxMs, options.firstMs * 2 ** Math.min(attempt, 30));
      attempt += 1;
      return random() * ceilingMs;
    },
    reset: () => {
      attempt = 0;
    },
  };
}
