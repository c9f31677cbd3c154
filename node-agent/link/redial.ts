import { createBackoff } from "../../shared/lifetime/backoff.ts";

/** A link that lived for so long was a good one, in milliseconds. */
const provenLifeMs = 30_000;

/** How long to wait before the next dial. */
export interface Redial {
  /** The wait before the next dial, in milliseconds: full jitter below ceilings of 0.2 s, doubled each time, to 30 s. */
  nextWaitMs(): number;
  /** A link has ended that lived for `ms`: after 30 s of life the ceilings start over. */
  lived(ms: number): void;
}

/** The waits between dials; `random` is a number in [0, 1). */
export function createRedial(random?: () => number): Redial {
  const backoff = createBackoff({ firstMs: 200, maxMs: 30_000, ...(random ? { random } : {}) });
  return {
    nextWaitMs: () => backoff.next(),
    lived: (ms) => {
      if (ms >= provenLifeMs) backoff.reset();
    },
  };
}
