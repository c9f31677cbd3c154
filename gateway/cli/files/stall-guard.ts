import { Fault } from "../../../shared/fault/fault.ts";
import type { Clock } from "../../../shared/lifetime/clock.ts";
import { Scope } from "../../../shared/lifetime/scope.ts";
import { askingMs } from "../open-gateway.ts";

/** A transfer in which no byte moves for so long has stalled, in milliseconds. */
export const stallMs = 60_000;

/** Ends a transfer that stands still: its signal aborts with `DEADLINE_EXCEEDED`. Disposing ends it. */
export interface StallGuard extends AsyncDisposable {
  readonly signal: AbortSignal;
  /**
   * A call that may wait for a person begins. Until what this gives was called, the transfer may stand still for as long
   * as a person is ever waited for; then its time begins anew.
   */
  pause(): () => void;
  /** Something moved. */
  moved(): void;
}

/** Starts the guard of one transfer, which `parent` ends too. */
export function startStallGuard(clock: Clock, parent: AbortSignal): StallGuard {
  const scope = new Scope("transfer", parent);
  let movedAt = clock.now();
  let pauses = 0;
  scope.spawn("stall guard", async (signal) => {
    for (;;) {
      const now = clock.now();
      const limitMs = pauses > 0 ? askingMs : stallMs;
      if (now >= movedAt + limitMs) throw stalled(limitMs);
      // A pause may end at any time: it is looked again no later than the shorter limit says.
      await clock.sleep(Math.min(movedAt + limitMs - now, stallMs), { signal });
    }
  });
  return {
    signal: scope.signal,
    pause: () => {
      pauses += 1;
      let isOver = false;
      return () => {
        if (isOver) return;
        isOver = true;
        pauses -= 1;
        movedAt = clock.now();
      };
    },
    moved: () => {
      movedAt = clock.now();
    },
    [Symbol.asyncDispose]: () => scope.end(),
  };
}

function stalled(limitMs: number): Fault {
  return new Fault("DEADLINE_EXCEEDED", `no byte moved for ${limitMs / 1000} s`, {
    hint: "look at the node with fairlead nodes show NODE, and repeat the command",
  });
}
