import { Fault } from "../../shared/fault/fault.ts";

/** What the caller of a call gets whose end nobody can tell it yet; it says how to ask again. */
export function outcomeUnknown(
  call: { readonly callId: string; readonly path: string },
  { alias, stage, reason }: { readonly alias: string; readonly stage: string; readonly reason?: string },
): Fault {
  return new Fault("OUTCOME_UNKNOWN", `nobody can say yet how ${call.path} ended`, {
    hint: `do not repeat it; ask again with: fairlead nodes outcome ${alias} ${call.callId}`,
    details: { callId: call.callId, node: alias, stage, ...(reason === undefined ? {} : { reason }) },
  });
}
