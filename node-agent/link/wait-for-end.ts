import { Fault } from "../../shared/fault/fault.ts";
import type { Clock, Deadline } from "../../shared/lifetime/clock.ts";
import type { IncomingCall } from "../../shared/rpc/dispatch.ts";
import { limitsOfLedger } from "./kept-answer.ts";

/**
 * How long a call that runs once is waited for: as long after its own signal as an outcome is kept, since what is written
 * down is how it ended and not when its caller left. Disposed when it has ended.
 */
export function waitForEnd({ signal, callId, path }: IncomingCall, clock: Clock): Deadline {
  const done = new AbortController();
  const over = new AbortController();
  const onAbort = (): void => {
    clock.sleep(limitsOfLedger.keptMs, { signal: done.signal }).then(
      () => over.abort(neverEndedFault(callId, path)),
      () => undefined,
    );
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true, signal: done.signal });
  return { signal: over.signal, [Symbol.dispose]: () => done.abort() };
}

function neverEndedFault(callId: string, path: string): Fault {
  return new Fault("OUTCOME_UNKNOWN", `${path} did not end long after its time had passed`, {
    hint: "look at what it did; do not repeat it blindly",
    details: { callId, stage: "running", reason: "never_ended" },
  });
}
