import { randomUUID } from "node:crypto";
import { Fault, findFault } from "./fault.ts";

/** Whether `error` is what an aborted signal raises by default (a reason nobody gave). */
export function isAbortError(error: unknown): boolean {
  return error instanceof Error && (error.name === "AbortError" || error.name === "TimeoutError");
}

/**
 * Any error as a Fault. A Fault stays itself (also as a cause of others), a bare abort is `CANCELLED`, a bare time-out
 * `DEADLINE_EXCEEDED`; anything else is a defect: `INTERNAL` with a trace id that the message carries.
 */
export function faultFromError(error: unknown): Fault {
  const known = findFault(error);
  if (known) return known;
  if (error instanceof Error && error.name === "TimeoutError") {
    return new Fault("DEADLINE_EXCEEDED", "the deadline passed", { cause: error });
  }
  if (isAbortError(error)) return new Fault("CANCELLED", "the call was cancelled", { cause: error });
  const traceId = randomUUID();
  return new Fault("INTERNAL", `an internal error happened (trace ${traceId})`, {
    hint: "look for the trace id in the log, and report it",
    details: { traceId },
    cause: error,
  });
}
