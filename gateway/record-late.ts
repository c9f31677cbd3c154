import type { Audit } from "./audit/audit.ts";
import type { LateResult } from "./link/late-outcomes.ts";

/** Puts results that came after their call's deadline into the record: nobody got them, and they happened. */
export function recordLate(
  audit: Pick<Audit, "append">,
  onFault: (error: unknown) => void,
): (result: LateResult) => void {
  return ({ nodeId, callId, path: method }) => {
    const entry = { actor: `node:${nodeId}`, action: "calls.end", target: `call:${callId}`, outcome: "late" };
    audit.append({ ...entry, nodeId, callId, details: { method } }).catch(onFault);
  };
}
