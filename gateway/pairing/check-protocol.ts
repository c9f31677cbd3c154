import { Fault } from "../../shared/fault/fault.ts";
import type { ProtocolWindow } from "../../shared/identity/protocol.ts";

/** The highest version that both speak; `VERSION_UNSUPPORTED` with both windows in the details when there is none. */
export function checkProtocol(ours: ProtocolWindow, theirs: ProtocolWindow): number {
  const version = Math.min(ours.max, theirs.max);
  if (version >= Math.max(ours.min, theirs.min)) return version;
  const isNodeOld = theirs.max < ours.min;
  throw new Fault(
    "VERSION_UNSUPPORTED",
    `this gateway speaks protocol ${ours.min} to ${ours.max}, the node ${theirs.min} to ${theirs.max}`,
    {
      details: { expected: `${ours.min}-${ours.max}`, actual: `${theirs.min}-${theirs.max}` },
      hint: isNodeOld ? "upgrade fairlead on the node" : "upgrade fairlead on the gateway",
    },
  );
}
