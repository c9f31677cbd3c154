import type { Clock } from "./clock.ts";

/** Longest stretch of work without a pause, in milliseconds. */
const longestTurnMs = 15;

/** Work in steps that touch the disk at once: between two of them others get their turn when this one was long. */
export class Turn {
  readonly #clock: Clock;
  #beganAt: number = performance.now();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Pauses if it is time. */
  async pause(signal: AbortSignal): Promise<void> {
    if (performance.now() - this.#beganAt < longestTurnMs) return;
    await this.#clock.sleep(0, { signal });
    this.#beganAt = performance.now();
  }
}
