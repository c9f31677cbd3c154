/** Something with a score, under a number. */
export interface Scored {
  readonly id: number;
  readonly score: number;
}

/** Keeps the best of what it is told, without ever holding more than twice as many. */
export class BestOf {
  readonly #limit: number;
  #held: Scored[] = [];
  #floor = -Infinity;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Tells it of one. */
  add(id: number, score: number): void {
    if (score < this.#floor) return;
    this.#held.push({ id, score });
    if (this.#held.length >= this.#limit * 2) this.#cut();
  }

  /** The best, best first; equal ones by their number. */
  take(): readonly Scored[] {
    this.#cut();
    return this.#held;
  }

  #cut(): void {
    this.#held = this.#held.toSorted(compareScored).slice(0, this.#limit);
    if (this.#held.length === this.#limit) this.#floor = this.#held.at(-1)?.score ?? -Infinity;
  }
}

/** Higher scores first, equal ones by their number. */
export function compareScored(a: Scored, b: Scored): number {
  return b.score - a.score || a.id - b.id;
}
