/** Bytes that many calls share. Whoever asks first is served first; nobody waits for it. */
export interface Budget {
  /** Bytes taken now. */
  readonly takenBytes: number;
  /** Takes as much of `bytes` as is free (and of the parent's too); returns what it took. */
  tryTake(bytes: number): number;
  /** Takes `bytes` whatever is free: the first credit that every call has. */
  take(bytes: number): void;
  /** Gives back. */
  give(bytes: number): void;
}

/** A budget of `limitBytes`; what is taken from it is also taken from its parent. */
export function createBudget(limitBytes: number, parent?: Budget): Budget {
  let takenBytes = 0;
  return {
    get takenBytes() {
      return takenBytes;
    },
    tryTake: (bytes) => {
      const free = Math.max(0, limitBytes - takenBytes);
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
