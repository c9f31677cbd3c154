import { Fault } from "../../shared/fault/fault.ts";
import type { EnrolmentRequestsTable } from "../store/tables.ts";

/** The command that ends a machine's wait. */
export function approveCommand(requestId: string): string {
  return `fairlead nodes approve ${requestId}`;
}

/** What a machine gets while nobody has decided. */
export function pendingFault(row: EnrolmentRequestsTable): Fault {
  return new Fault("ENROLMENT_PENDING", `the machine waits for approval as request ${row.id}`, {
    details: {
      requestId: row.id,
      command: approveCommand(row.id),
      askedAt: row.asked_at,
      expiresAt: row.expires_at,
    },
    hint: `an administrator lets it in with ${approveCommand(row.id)}`,
  });
}

/** What a machine gets whose request was rejected, or that nobody decided in its time. */
export function rejectedFault(row: EnrolmentRequestsTable): Fault {
  const expired = row.state === "expired";
  const at = new Date(expired ? row.expires_at : (row.closed_at ?? 0)).toISOString();
  return new Fault(
    "ENROLMENT_REJECTED",
    expired
      ? `nobody decided about request ${row.id} until ${at}`
      : `request ${row.id} was rejected at ${at}`,
    {
      details: { requestId: row.id, reason: expired ? "expired" : "rejected" },
      hint: "ask an administrator for a new code, made with fairlead invite",
    },
  );
}

/** What a call gets when its machine asked again in another way: two of them must not push each other out for ever. */
export function supersededFault(requestId: string): Fault {
  return new Fault("CONFLICT", `another request of this machine took the place of request ${requestId}`, {
    details: { requestId, reason: "superseded" },
    hint: "one fairlead node join at a time; on a copied home add --new-identity",
  });
}

/** What a machine gets whose request gave way to newer ones. It may ask again, later. */
export function gaveWayFault(requestId: string, limit: number): Fault {
  return new Fault(
    "LIMIT_REACHED",
    `request ${requestId} gave way to newer ones: too many machines wait at once`,
    {
      retryable: true,
      details: { requestId, reason: "gave_way", limit },
      hint: "an administrator decides about those that wait with fairlead nodes pending",
    },
  );
}
