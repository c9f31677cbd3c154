/** Cuts long work on the disk into turns of some milliseconds, so that everything else goes on beside it. */
export interface Pause {
  /** Whether this turn has lasted long enough. */
  isDue(): boolean;
  /** Lets others run, then begins the next turn; rejects with the signal's reason. */
  take(): Promise<void>;
}

/** How long one turn may last. */
const turnMs = 10;

/** A pause whose first turn begins now. */
export function createPause(signal: AbortSignal | undefined): Pause {
  let endsAt = performance.now() + turnMs;
  return {
    isDue: () => performance.now() >= endsAt,
    take: async () => {
      await new Promise<void>((resolve) => void setImmediate(resolve));
      signal?.throwIfAborted();
      endsAt = performance.now() + turnMs;
    },
  };
}
