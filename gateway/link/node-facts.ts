import { protocolWindow } from "../../shared/identity/protocol.ts";
import type { NodeFacts, Presence } from "./links.ts";
import type { NodeState } from "./node-state.ts";

/** What is known of a node's link; a node that was never seen has told nothing. */
export function factsOf(node: NodeState | undefined): NodeFacts {
  const link = node?.link;
  const hello = node?.presence.hello;
  return {
    protocol: link?.protocol ?? 0,
    upgrade: upgradeOf(node?.presence),
    installedVersion: link?.installedVersion ?? hello?.installedVersion ?? "",
    droppedCount: node?.tally.droppedCount ?? 0,
    timedOut: node?.tally.timedOut ?? [],
    drain: node?.drain,
  };
}

/** The side whose newest version is behind that of the other. */
function upgradeOf(presence: Presence | undefined): NodeFacts["upgrade"] {
  if (!presence?.hello) return undefined;
  const { protocolMax } = presence.hello;
  if (protocolMax < protocolWindow.max) return "node";
  return protocolMax > protocolWindow.max ? "gateway" : undefined;
}
