/** Calls of one method that ran out of time. */
export interface TimedOutCalls {
  /** The full name: `/fairlead.v1.Files/Stat`. */
  readonly path: string;
  readonly count: number;
}

/** What one node got wrong since this gateway process started, counted over all its links. */
export class NodeTally {
  readonly #timedOut = new Map<string, number>();
  #droppedCount = 0;

  /** Messages that belonged to nothing. */
  get droppedCount(): number {
    return this.#droppedCount;
  }

  /** Calls that ran out of time, the most frequent method first. */
  get timedOut(): readonly TimedOutCalls[] {
    const all = Array.from(this.#timedOut, ([path, count]) => ({ path, count }));
    return all.toSorted((one, other) => other.count - one.count);
  }

  /** A message belonged to nothing and was dropped. */
  dropped(): void {
    this.#droppedCount += 1;
  }

  /** A call ran out of time. The methods of this program are the bound. */
  ranOut(path: string): void {
    this.#timedOut.set(path, (this.#timedOut.get(path) ?? 0) + 1);
  }
}
