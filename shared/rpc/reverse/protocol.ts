import { Fault } from "../../fault/fault.ts";
import type { ProtocolWindow } from "../../identity/protocol.ts";

/**
 * The highest version that both speak. `VERSION_UNSUPPORTED` with both spans in details and a hint that says which side
 * is behind when there is none.
 */
export function chooseProtocol(gateway: ProtocolWindow, node: ProtocolWindow): number {
  const highest = Math.min(gateway.max, node.max);
  if (highest >= Math.max(gateway.min, node.min)) return highest;
  const behind = node.max < gateway.min ? "node" : "gateway";
  const message = `the node speaks protocol ${spanOf(node)} and the gateway ${spanOf(gateway)}`;
  throw new Fault("VERSION_UNSUPPORTED", message, {
    hint: `upgrade the ${behind}`,
    details: { gateway: { ...gateway }, node: { ...node } },
  });
}

function spanOf({ min, max }: ProtocolWindow): string {
  return min === max ? String(max) : `${min} to ${max}`;
}
