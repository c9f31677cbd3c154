import { Fault } from "../fault/fault.ts";

/** What a lease is about and what its end looks like to a caller. */
export interface LeaseOptions {
  /** What was granted, for messages: `workspace devbox:/app`. */
  readonly what: string;
  /** Distinguishes this grant from earlier ones of the same thing; only ever rises. */
  readonly epoch: number;
  /** The fault a caller gets after the end; `LEASE_ENDED` by default. */
  readonly ended?: (reason: string) => Fault;
}

/**
 * Everything that is granted for a time. Holders check it before and after each wait; who granted it ends it once, with
 * a reason, and every holder's signal aborts with the same fault.
 */
export class Lease implements Disposable {
  readonly what: string;
  readonly epoch: number;
  readonly #controller = new AbortController();
  readonly #ended: (reason: string) => Fault;

  constructor(options: LeaseOptions) {
    this.what = options.what;
    this.epoch = options.epoch;
    this.#ended =
      options.ended ??
      ((reason) =>
        new Fault("LEASE_ENDED", `${options.what} is no longer granted`, {
          details: { lease: options.what, reason },
        }));
  }

  /** Aborts when the lease ends; its reason is the fault. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Whether it still holds. */
  get isActive(): boolean {
    return !this.#controller.signal.aborted;
  }

  /** Fails with the lease's fault once it has ended. */
  check(): void {
    this.#controller.signal.throwIfAborted();
  }

  /** Waits for `work` under the lease: checked before and after, and given up at once when the lease ends meanwhile. */
  async during<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    this.check();
    const result = await work(this.signal);
    this.check();
    return result;
  }

  /** Ends it; only the first reason counts. */
  end(reason: string): void {
    if (this.isActive) this.#controller.abort(this.#ended(reason));
  }

  [Symbol.dispose](): void {
    this.end("released");
  }
}
