import { faultFromError } from "../fault/fault-from-error.ts";
import type { Fault } from "../fault/fault.ts";
import { createBackoff } from "../lifetime/backoff.ts";
import { type Clock, raceSignal } from "../lifetime/clock.ts";
import { Scope } from "../lifetime/scope.ts";
import { watchFolder } from "./watch-folder.ts";

/** What `startVerifiedWatch` takes. */
export interface VerifiedWatchOptions {
  /** The absolute folder. */
  readonly dir: string;
  readonly includes: (relative: string, isFolder: boolean | undefined) => boolean;
  /** Compares what is there with what was known, and tells of the difference. */
  readonly scan: (signal: AbortSignal) => Promise<void>;
  /** The watch covers everything, and a scan that began afterwards has ended. */
  readonly onAvailable: () => void;
  /** Only timed scans see changes from now on. */
  readonly onUnavailable: (fault: Fault) => void;
  readonly clock: Clock;
  /** Still for so long, in milliseconds, before a change is looked at. */
  readonly debounceMs: number;
}

/** The longest that steady changes put a scan off, in milliseconds. */
const longestWaitMs = 5000;
/** Between two scans without any hint, in milliseconds: what finds the changes that no event told of. */
const scanEveryMs = 10_000;
/** The same while there is no watch. */
const scanBlindEveryMs = 2000;

/**
 * A watch whose word can be believed: events only ever cause a scan, and a scan happens without them too. Ends with its
 * scope; a scan that fails makes it unavailable until one succeeds.
 */
export class VerifiedWatch implements AsyncDisposable {
  readonly #options: VerifiedWatchOptions;
  readonly #scope = new Scope("watch");
  #hint: PromiseWithResolvers<void> = Promise.withResolvers();
  #lastHintAt = 0;
  #isWatching = false;
  #told: "nothing" | "available" | "unavailable" = "nothing";

  constructor(options: VerifiedWatchOptions) {
    this.#options = options;
    this.#scope.spawn("watch", (signal) => this.#keepWatching(signal));
    this.#scope.spawn("scan", (signal) => this.#keepScanning(signal));
  }

  /** Whether coverage was verified. */
  get isAvailable(): boolean {
    return this.#told === "available";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scope.end();
  }

  async #keepWatching(signal: AbortSignal): Promise<void> {
    const backoff = createBackoff({ firstMs: 500, maxMs: 30_000 });
    for (;;) {
      const trouble = Promise.withResolvers<Fault>();
      try {
        await using _ = await watchFolder({
          dir: this.#options.dir,
          includes: this.#options.includes,
          onHint: () => this.#takeHint(),
          onTrouble: (fault) => trouble.resolve(fault),
          signal,
        });
        this.#isWatching = true;
        this.#takeHint();
        backoff.reset();
        const fault = await raceSignal(trouble.promise, signal);
        this.#isWatching = false;
        this.#tellUnavailable(fault);
      } catch (error) {
        signal.throwIfAborted();
        this.#isWatching = false;
        this.#tellUnavailable(faultFromError(error));
      }
      await this.#options.clock.sleep(backoff.next(), { signal });
    }
  }

  async #keepScanning(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#waitForCause(signal);
      this.#hint = Promise.withResolvers();
      const wasWatching = this.#isWatching;
      try {
        await this.#options.scan(signal);
        if (wasWatching && this.#isWatching && !this.isAvailable) {
          this.#told = "available";
          this.#options.onAvailable();
        }
      } catch (error) {
        signal.throwIfAborted();
        this.#tellUnavailable(faultFromError(error));
      }
    }
  }

  /** Waits for a hint and then for stillness, or for the timer. */
  async #waitForCause(signal: AbortSignal): Promise<void> {
    const { clock, debounceMs } = this.#options;
    const over = new AbortController();
    const ended = AbortSignal.any([signal, over.signal]);
    const timer = clock.sleep(this.isAvailable ? scanEveryMs : scanBlindEveryMs, { signal: ended });
    const wasHint = await Promise.race([
      this.#hint.promise.then(() => true),
      timer.then(() => false),
    ]).finally(() => {
      timer.catch(() => undefined);
      over.abort();
    });
    // The first scan after the watch began has nothing to wait for.
    if (!wasHint || !this.isAvailable) return;
    const beganAt = clock.now();
    for (
      let quietMs = clock.now() - this.#lastHintAt;
      quietMs < debounceMs;
      quietMs = clock.now() - this.#lastHintAt
    ) {
      if (clock.now() - beganAt >= longestWaitMs) return;
      await clock.sleep(debounceMs - quietMs, { signal });
    }
  }

  #takeHint(): void {
    this.#lastHintAt = this.#options.clock.now();
    this.#hint.resolve();
  }

  #tellUnavailable(fault: Fault): void {
    if (this.#told === "unavailable") return;
    this.#told = "unavailable";
    this.#options.onUnavailable(fault);
  }
}
