import type { FaultCode } from "../../shared/fault/codes.ts";
import type { Fault } from "../../shared/fault/fault.ts";

/** What follows from the end of a connection. */
export interface EndJudgement {
  readonly fault: Fault;
  /** No more dial: only a person can mend it. */
  readonly final: boolean;
  /** For the status: a `snake_case` word. */
  readonly reason: string;
  /** What a person can do; empty when nothing is to be done. */
  readonly nextStep: string;
  /** The gateway asked to be left alone for so long, in milliseconds. */
  readonly atLeastMs: number;
}

/** An identity that a gateway does not know may be one that it has not heard of yet: so many refusals are final. */
const unknownIsFinalAfter = 3;

/** Codes whose faults say in `details.reason` what it is about. */
const hasOwnReason: ReadonlySet<FaultCode> = new Set([
  "GATEWAY_UNREACHABLE",
  "NODE_OFFLINE",
  "UNAUTHENTICATED",
  "CONFLICT",
]);

/** Judges the end of a connection. Dialling never stops, except at an identity code that only a person can mend. */
export function judgeEnd(fault: Fault, { unknownCount }: { readonly unknownCount: number }): EndJudgement {
  const { details } = fault;
  const retryAfterMs = details["retryAfterMs"];
  const said = details["reason"];
  return {
    fault,
    final: isFinal(fault, unknownCount),
    reason:
      (hasOwnReason.has(fault.code) || said === "older_owner") && typeof said === "string"
        ? said
        : fault.code.toLowerCase(),
    nextStep: nextStepOf(fault),
    atLeastMs: fault.code === "RATE_LIMITED" && typeof retryAfterMs === "number" ? retryAfterMs : 0,
  };
}

function isFinal({ code, retryable }: Fault, unknownCount: number): boolean {
  if (code === "IDENTITY_REVOKED") return true;
  if (code === "IDENTITY_EXPIRED") return !retryable;
  return code === "IDENTITY_UNKNOWN" && unknownCount >= unknownIsFinalAfter;
}

function nextStepOf({ code, hint, retryable }: Fault): string {
  const mustJoinAgain = code === "IDENTITY_REVOKED" || code === "IDENTITY_UNKNOWN";
  if (mustJoinAgain || (code === "IDENTITY_EXPIRED" && !retryable)) return "fairlead node join CODE";
  if (code !== "GATEWAY_UNREACHABLE") return hint ?? "";
  return "see that the gateway runs and that this machine reaches it; it is dialled again by itself";
}
