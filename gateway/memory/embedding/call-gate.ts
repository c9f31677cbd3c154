import { type Clock, raceSignal } from "../../../shared/lifetime/clock.ts";

/** What bounds calls to somebody else. */
export interface CallGateOptions {
  /** Most calls that are open at once. */
  readonly maxCalls: number;
  /** Most calls begun in a minute; undefined: no bound. */
  readonly callsPerMinute: number | undefined;
  readonly clock: Clock;
}

/** Who is let in first: a search that waits for its answer, or the filling of an index. */
export type CallUrgency = "search" | "index";

/** Lets calls in, so many at once and so many a minute, searches before the rest. */
export interface CallGate {
  /** Calls that are open now. */
  readonly open: number;
  /** Runs `call` when there is room; rejects with the signal's reason when that aborts first, and then never runs it. */
  enter<T>(urgency: CallUrgency, signal: AbortSignal, call: () => Promise<T>): Promise<T>;
}

/** A gate that nobody has passed yet. */
export function createCallGate(options: CallGateOptions): CallGate {
  const { maxCalls, callsPerMinute, clock } = options;
  const gapMs = callsPerMinute === undefined ? 0 : 60_000 / callsPerMinute;
  const waiting: Record<CallUrgency, PromiseWithResolvers<void>[]> = { search: [], index: [] };
  let open = 0;
  let nextAt = 0;

  const admit = (): void => {
    while (open < maxCalls) {
      const next = waiting.search.shift() ?? waiting.index.shift();
      if (!next) return;
      open += 1;
      next.resolve();
    }
  };
  const leave = (): void => {
    open -= 1;
    admit();
  };
  const takeRoom = async (urgency: CallUrgency, signal: AbortSignal): Promise<void> => {
    signal.throwIfAborted();
    const turn = Promise.withResolvers<void>();
    waiting[urgency].push(turn);
    admit();
    try {
      await raceSignal(turn.promise, signal);
    } catch (error) {
      const place = waiting[urgency].indexOf(turn);
      // Let in at the very moment it gave up: the room is given back.
      if (place === -1) leave();
      else waiting[urgency].splice(place, 1);
      throw error;
    }
  };
  return {
    get open() {
      return open;
    },
    enter: async (urgency, signal, call) => {
      await takeRoom(urgency, signal);
      try {
        const waitMs = nextAt - clock.now();
        nextAt = Math.max(nextAt, clock.now()) + gapMs;
        if (waitMs > 0) await clock.sleep(waitMs, { signal });
        return await call();
      } finally {
        leave();
      }
    },
  };
}
