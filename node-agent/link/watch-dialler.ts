import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { LinkStatus } from "./link-status.ts";

/** An agent that is offline and starts no attempt for so long is stuck, in milliseconds. */
export const stuckAfterMs = 120_000;

const lookEveryMs = 1_000;

/** What watching the dialler needs. */
export interface WatchDiallerOptions {
  readonly status: () => LinkStatus;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Watches that dials go on: resolves with a fault once the link is down and nothing was tried for 120 s, with nothing when
 * the signal aborts. A wait that was announced is none. Only time that this process was awake counts.
 */
export async function watchDialler({
  status,
  clock,
  signal,
}: WatchDiallerOptions): Promise<Fault | undefined> {
  let idleMs = 0;
  for (let lookedAt = clock.now(); ;) {
    try {
      await clock.sleep(lookEveryMs, { signal });
    } catch {
      return undefined;
    }
    const now = clock.now();
    // A machine that slept is given the time to wake up.
    const awakeMs = Math.min(Math.max(0, now - lookedAt), 2 * lookEveryMs);
    lookedAt = now;
    idleMs = isTrying(status(), now) ? 0 : idleMs + awakeMs;
    if (idleMs >= stuckAfterMs) return stuckFault();
  }
}

/** Linked, over for good, in an attempt that is young, or waiting for a time that is still to come. */
function isTrying({ state, lastAttemptMs, nextAttemptMs }: LinkStatus, now: number): boolean {
  if (state === "online" || state === "draining" || state === "stopped") return true;
  return state === "connecting" ? now - lastAttemptMs < 2 * lookEveryMs : nextAttemptMs > now;
}

function stuckFault(): Fault {
  return new Fault("INTERNAL", `the link was down for ${stuckAfterMs / 1000} s and nothing was tried`, {
    hint: "start the agent again: fairlead node run; its service does so by itself",
    details: { reason: "dialler_stuck" },
  });
}
