/** Bytes that many calls share. Whoever asks first is served first; nobody waits for it. */
export interface Budget {
  /** Bytes taken now. */
  readonly takenBytes: number;
  /**
   * Takes as much of `bytes` as is free for growth (of the parent too); returns what it took. Growth ends at half of the
   * limit: the other half is for the first credits of calls to come, however many there are already.
   */
  tryTake(bytes: number): number;
  /** Takes `bytes` whatever is free: the first credit that every call has. */
  take(bytes: number): void;
  /** Gives back. */
  give(bytes: number): void;
}

/** How much of a budget may be taken for more than first credits. */
const growthShare = 0.5;

/** A budget of `limitBytes`; what is taken from it is also taken from its parent. */
export function createBudget(limitBytes: number, parent?: Budget): Budget {
  let takenBytes = 0;
  return {
    get takenBytes() {
      return takenBytes;
    },
    tryTake: (bytes) => {
      const free = Math.max(0, limitBytes * growthShare - takenBytes);
      const own = Math.min(bytes, free);
      const granted = parent ? parent.tryTake(own) : own;
      takenBytes += granted;
      return granted;
    },
    take: (bytes) => {
      takenBytes += bytes;
      parent?.take(bytes);
    },
    give: (bytes) => {
      takenBytes -= bytes;
      parent?.give(bytes);
    },
  };
}
