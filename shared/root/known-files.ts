import type { Clock } from "../lifetime/clock.ts";
import type { WorkspacePath } from "../names/workspace-path.ts";
import type { Entry } from "./root-handle.ts";

/** A file whose last change is younger than this when it is read, in milliseconds, may change again within one tick. */
const settledAfterMs = 100;

interface Known<T> {
  readonly entry: Entry;
  readonly value: T;
  readonly isSettled: boolean;
}

/**
 * What was made of files that were read, for as long as size, times and inode are the same. What was read in the moment
 * of a change is not believed a second time.
 */
export class KnownFiles<T> {
  readonly #clock: Clock;
  #present = new Map<WorkspacePath, Known<T>>();
  #past = new Map<WorkspacePath, Known<T>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Begins a round: what is neither found nor kept in it is forgotten with the next. */
  begin(): void {
    this.#past = this.#present;
    this.#present = new Map();
  }

  /** What was made of the file, if it is still as it was. */
  find(entry: Entry): T | undefined {
    const known = this.#present.get(entry.path) ?? this.#past.get(entry.path);
    if (!known?.isSettled || !isSame(known.entry, entry)) return undefined;
    this.#present.set(entry.path, known);
    return known.value;
  }

  /** Keeps what was made of the file; `entry` is that of the file that was read, a moment ago. */
  keep(entry: Entry, value: T): void {
    const isSettled = this.#clock.now() - Number(entry.ctimeNs / 1_000_000n) > settledAfterMs;
    this.#present.set(entry.path, { entry, value, isSettled });
  }
}

function isSame(a: Entry, b: Entry): boolean {
  return (
    a.sizeBytes === b.sizeBytes &&
    a.mtimeNs === b.mtimeNs &&
    a.ctimeNs === b.ctimeNs &&
    a.inode === b.inode &&
    a.device === b.device
  );
}
