import { raceSignal, type Clock } from "../../shared/lifetime/clock.ts";

/** How a wait of a call ended. */
export type HeldEnd = "decided" | "gave_way" | "superseded" | "displaced" | "time";

/** How long a call is kept, and by what it may be ended. */
export interface HoldOptions {
  /** At most this long, in milliseconds. */
  readonly timeoutMs: number;
  /** The call's own. */
  readonly signal: AbortSignal;
  /** Whether there is still something to wait for; asked once the wait can be ended, so that no decision is missed. */
  readonly isOpen: () => Promise<boolean>;
}

/** Calls of machines that wait for an administrator, at most one a request: the newest, which the machine listens to. */
export interface HeldCalls {
  /** Waits for the end of a request; rejects with the signal's reason. */
  hold(requestId: string, options: HoldOptions): Promise<HeldEnd>;
  /** Ends the wait of a request, if any. */
  end(requestId: string, how: "decided" | "gave_way" | "superseded"): void;
  /** Whether a call waits for that request now. */
  has(requestId: string): boolean;
}

/** Begins empty; calls end by themselves, at the latest with their signal. */
export function createHeldCalls(clock: Clock): HeldCalls {
  const held = new Map<string, (how: HeldEnd) => void>();
  return {
    hold: async (requestId, { timeoutMs, signal, isOpen }) => {
      const ended = Promise.withResolvers<HeldEnd>();
      held.get(requestId)?.("displaced");
      held.set(requestId, ended.resolve);
      const over = new AbortController();
      try {
        if (!(await isOpen())) return "decided";
        const time = clock.sleep(timeoutMs, { signal: over.signal }).then(() => "time" as const);
        return await raceSignal(Promise.race([ended.promise, time]), signal);
      } finally {
        over.abort();
        if (held.get(requestId) === ended.resolve) held.delete(requestId);
      }
    },
    end: (requestId, how) => held.get(requestId)?.(how),
    has: (requestId) => held.has(requestId),
  };
}
