import { raceSignal, startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import type { LinkSide } from "./link-side.ts";

/** A bulk connection without a call for so long is closed, in milliseconds. */
export const bulkIdleMs = 60_000;

/** A node that opens no bulk connection in this time carries the transfer on its control connection, in milliseconds. */
const bulkOpenMs = 5_000;

/** What the bulk connection of a link needs. */
export interface BulkSideOptions {
  readonly clock: Clock;
  /** Asks the node for the connection. */
  readonly ask: () => void;
  /** Aborts when the link ends. */
  readonly signal: AbortSignal;
}

/** The second connection of a link, for large transfers: asked for by the first of them, closed when idle. */
export class BulkSide {
  readonly #options: BulkSideOptions;
  #side: LinkSide | undefined;
  #coming: PromiseWithResolvers<LinkSide | undefined> | undefined;
  #callCount = 0;
  #refused = false;
  #idleSince = 0;

  constructor(options: BulkSideOptions) {
    this.#options = options;
  }

  /** The connection, if it is open. */
  get side(): LinkSide | undefined {
    return this.#side;
  }

  /** The node opened it. */
  opened(side: LinkSide): void {
    this.#side?.end(undefined);
    this.#side = side;
    this.#coming?.resolve(side);
    this.#coming = undefined;
    void this.#closeWhenIdle(side);
  }

  /** It is gone. */
  closed(side: LinkSide): void {
    if (this.#side === side) this.#side = undefined;
  }

  /** The connection for a transfer, opened if need be; undefined when the node opens none. Each use is given back. */
  async use(signal: AbortSignal | undefined): Promise<{ readonly side: LinkSide | undefined } & Disposable> {
    this.#callCount += 1;
    try {
      const side = this.#side ?? (this.#refused ? undefined : await this.#open(signal));
      return { side, [Symbol.dispose]: () => this.#giveBack() };
    } catch (error) {
      this.#giveBack();
      throw error;
    }
  }

  #giveBack(): void {
    this.#callCount -= 1;
    this.#idleSince = this.#options.clock.now();
  }

  async #open(signal: AbortSignal | undefined): Promise<LinkSide | undefined> {
    if (!this.#coming) {
      this.#coming = Promise.withResolvers<LinkSide | undefined>();
      void this.#giveUp(this.#coming);
      this.#options.ask();
    }
    return await raceSignal(this.#coming.promise, signal);
  }

  async #giveUp(coming: PromiseWithResolvers<LinkSide | undefined>): Promise<void> {
    using limit = startDeadline({
      timeoutMs: bulkOpenMs,
      signal: this.#options.signal,
      clock: this.#options.clock,
    });
    await raceSignal(coming.promise, limit.signal).catch(() => {
      this.#refused = true;
      coming.resolve(undefined);
    });
  }

  async #closeWhenIdle(side: LinkSide): Promise<void> {
    const { clock } = this.#options;
    this.#idleSince = clock.now();
    while (this.#side === side) {
      const restMs = this.#callCount > 0 ? bulkIdleMs : this.#idleSince + bulkIdleMs - clock.now();
      try {
        if (restMs > 0) await clock.sleep(restMs, { signal: side.signal });
      } catch {
        return;
      }
      if (this.#callCount > 0 || clock.now() < this.#idleSince + bulkIdleMs) continue;
      side.end(undefined);
      this.closed(side);
    }
  }
}
