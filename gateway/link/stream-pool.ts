import { Fault } from "../../shared/fault/fault.ts";
import { raceSignal, startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import type { ServeStream } from "./serve-stream.ts";

/** Streams of one connection that carry calls with a deadline. */
export const maxPooledStreams = 64;

/** Streams of one link that stay open. */
export const maxOpenStreams = 1024;

/** A stream that carried no call for so long is ended, in milliseconds. */
export const idleStreamMs = 30_000;

/** What a pool needs. */
export interface StreamPoolOptions {
  readonly clock: Clock;
  /** Aborts when the link ends; its reason is the fault of whoever waits. */
  readonly signal: AbortSignal;
  /** Tells the node how many streams it should hold in all. */
  readonly askFor: (targetCount: number) => void;
}

/** What a call that wants a stream says. */
export interface StreamWish {
  readonly remainingMs: number;
  readonly signal: AbortSignal | undefined;
  /** For messages. */
  readonly path: string;
  readonly callId: string;
}

/** The parked streams of one connection. Calls that find none wait in order, within their deadline. */
export class StreamPool {
  readonly #options: StreamPoolOptions;
  /** The one used last is used next, so that the others grow idle. */
  readonly #free: ServeStream[] = [];
  readonly #waiting: PromiseWithResolvers<ServeStream>[] = [];
  readonly #open = new Set<ServeStream>();
  #target = 1;
  #staysOpenCount = 0;
  #sweeping = false;

  constructor(options: StreamPoolOptions) {
    this.#options = options;
  }

  /** Streams that there are, free or not. */
  get openCount(): number {
    return this.#open.size;
  }

  /** Streams that wait for a call. */
  get freeCount(): number {
    return this.#free.length;
  }

  /** A free stream; waits for one in order. `DEADLINE_EXCEEDED` (stage `queued`) when none came in time. */
  acquire(wish: StreamWish): Promise<ServeStream> | ServeStream {
    const staysOpen = !Number.isFinite(wish.remainingMs);
    if (staysOpen && this.#staysOpenCount >= maxOpenStreams) throw tooManyFault();
    if (staysOpen) this.#staysOpenCount += 1;
    const free = this.#waiting.length === 0 ? this.#free.pop() : undefined;
    if (!free) return this.#wait(wish, staysOpen);
    free.staysOpen = staysOpen;
    if (staysOpen && this.#free.length === 0) this.#ask();
    return free;
  }

  async #wait(wish: StreamWish, staysOpen: boolean): Promise<ServeStream> {
    const ticket = Promise.withResolvers<ServeStream>();
    this.#waiting.push(ticket);
    this.#ask();
    const { remainingMs, signal = this.#options.signal } = wish;
    using deadline = Number.isFinite(remainingMs)
      ? startDeadline({
          timeoutMs: remainingMs,
          signal,
          clock: this.#options.clock,
          fault: () => queuedFault(wish),
        })
      : undefined;
    try {
      const both = AbortSignal.any([deadline?.signal ?? signal, this.#options.signal]);
      const stream = await raceSignal(ticket.promise, both);
      stream.staysOpen = staysOpen;
      return stream;
    } catch (error) {
      if (staysOpen) this.#staysOpenCount -= 1;
      const at = this.#waiting.indexOf(ticket);
      if (at >= 0) this.#waiting.splice(at, 1);
      // It may have been served in the same moment.
      else void ticket.promise.then((stream) => this.onFree(stream)).catch(() => undefined);
      throw error;
    }
  }

  /**
   * Asks for streams. The number doubles once those of the step before are open and calls still wait: many at once would
   * all come at the end, not the first at once.
   */
  #ask(): void {
    const pooled = this.#open.size - this.#staysOpenCount;
    if (this.#waiting.length > 0 && pooled >= this.#target && this.#target < maxPooledStreams) {
      this.#target = this.#target < 8 ? 8 : Math.min(maxPooledStreams, this.#target * 2);
    }
    this.#options.askFor(this.#target + this.#staysOpenCount);
  }

  /** A stream was opened by the node, or its call has ended. */
  onFree(stream: ServeStream): void {
    const isNew = !this.#open.has(stream);
    this.#open.add(stream);
    if (stream.staysOpen) {
      stream.staysOpen = false;
      this.#staysOpenCount -= 1;
    }
    const next = this.#waiting.shift();
    if (next) {
      next.resolve(stream);
      if (isNew && this.#waiting.length > 0) this.#ask();
      return;
    }
    stream.parkedAt = this.#options.clock.now();
    this.#free.push(stream);
    if (this.#free.length > 1 && !this.#sweeping) void this.#sweep();
  }

  /** A stream is gone; the node replaces those that were broken off. */
  onGone(stream: ServeStream): void {
    this.#open.delete(stream);
    if (stream.staysOpen) this.#staysOpenCount -= 1;
    const at = this.#free.indexOf(stream);
    if (at >= 0) this.#free.splice(at, 1);
    if (this.#waiting.length > 0) this.#ask();
  }

  /** Calls with a deadline that run on its streams. */
  get busyCount(): number {
    return this.#open.size - this.#free.length - this.#staysOpenCount;
  }

  /** Whether one of its streams carries the call. */
  carries(callId: string): boolean {
    return this.#open.values().some((stream) => stream.callId === callId);
  }

  /** Ends every call that runs on a stream or waits for one. */
  cancelAll(fault: Fault): void {
    for (const ticket of this.#waiting.splice(0)) ticket.reject(fault);
    for (const stream of this.#open) stream.cancelNow(fault);
  }

  /** The link is over: calls on its streams hear of it. */
  lose(): void {
    for (const stream of this.#open) stream.lose();
    this.#free.length = 0;
  }

  /** Ends streams that nobody needed for a while, until one is left. */
  async #sweep(): Promise<void> {
    this.#sweeping = true;
    const { clock, signal } = this.#options;
    try {
      while (this.#free.length > 1) {
        const oldest = this.#free[0];
        if (!oldest) return;
        await clock.sleep(Math.max(1, oldest.parkedAt + idleStreamMs - clock.now()), { signal });
        const before = clock.now() - idleStreamMs;
        for (const stream of this.#free.filter(({ parkedAt }) => parkedAt <= before)) {
          if (this.#free.length > 1) stream.end();
        }
        this.#target = Math.max(1, Math.min(this.#target, this.#open.size - this.#staysOpenCount));
      }
    } catch {
      // The link has ended, and its streams with it.
    } finally {
      this.#sweeping = false;
    }
  }
}

function queuedFault({ path, remainingMs, callId }: StreamWish): Fault {
  return new Fault("DEADLINE_EXCEEDED", `${path} found no free stream within ${remainingMs} ms`, {
    details: { stage: "queued", callId },
  });
}

function tooManyFault(): Fault {
  return new Fault("LIMIT_REACHED", `more than ${maxOpenStreams} streams stay open on this link`, {
    details: { limit: maxOpenStreams, actual: maxOpenStreams + 1 },
  });
}
