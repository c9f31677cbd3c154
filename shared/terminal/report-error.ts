import { exitStatus } from "../fault/codes.ts";
import { faultFromError } from "../fault/fault-from-error.ts";
import { type Fault, toFaultJson } from "../fault/fault.ts";
import { visibleText } from "../log/safe-text.ts";
import type { Output } from "./output.ts";

/** The exit status of a command that a signal ended. */
export const interruptedStatus = 130;

/** Whether `fault` says that a signal ended the command. */
export function isInterruption(fault: Fault): boolean {
  return fault.code === "CANCELLED" && fault.details["reason"] === "interrupted";
}

/**
 * Prints an error: two lines on standard error, or with `--json` the error object on standard output. Gives the exit
 * status of its code, 130 for an interruption (which is not explained to a person: they know).
 */
export async function reportError(output: Output, error: unknown): Promise<number> {
  const fault = faultFromError(error);
  const interrupted = isInterruption(fault);
  if (output.json) await output.event({ error: { ...toFaultJson(fault) } }, () => []);
  else if (!interrupted) {
    for (const line of errorLines(fault)) output.note(line);
  }
  // A defect of this process has no other log than this one.
  if (fault.code === "INTERNAL" && fault.cause instanceof Error) {
    for (const line of (fault.cause.stack ?? "").split("\n").slice(0, 20)) output.note(line);
  }
  return interrupted ? interruptedStatus : exitStatus(fault.code, fault.retryable);
}

/** The lines of an error: what happened with its code (a refusal: also whose rule it was), then the next command. */
export function errorLines(fault: Fault): readonly string[] {
  const { side, rule } = fault.details;
  const isRefusal = fault.code === "POLICY_DENIED" && typeof side === "string" && typeof rule === "string";
  const whose = isRefusal ? `; the ${side}'s rule is ${rule}` : "";
  const first = `error: ${visibleText(fault.message + whose)} (${fault.code})`;
  return fault.hint === undefined ? [first] : [first, `hint: ${visibleText(fault.hint)}`];
}
