import type { Clock } from "../../shared/lifetime/clock.ts";

const lookEveryMs = 500;

/** A look that comes so much later than it was meant to is a sleep of the machine, or a clock that was set. */
const jumpMs = 10_000;

/** What watching for a wake-up needs. */
export interface WakeOptions {
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The machine slept, or its clock jumped. */
  readonly onWake: () => void;
}

/** Watches the clock for jumps until the signal aborts. */
export async function watchForWake({ clock, signal, onWake }: WakeOptions): Promise<void> {
  for (let lookedAt = clock.now(); ;) {
    try {
      await clock.sleep(lookEveryMs, { signal });
    } catch {
      return;
    }
    const now = clock.now();
    if (Math.abs(now - lookedAt - lookEveryMs) >= jumpMs) onWake();
    lookedAt = now;
  }
}
