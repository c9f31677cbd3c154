import type { DescService } from "@bufbuild/protobuf";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Client } from "../../shared/rpc/service.ts";
import { createClient } from "../../shared/rpc/transport.ts";
import { createNodeTransport } from "./call-node.ts";
import type { Link } from "./link.ts";
import type { LiveLink } from "./links.ts";
import type { NodeState } from "./node-state.ts";

/** What calls to a node go over. */
export interface NodeCallParts {
  readonly node: NodeState;
  readonly link: Link;
  readonly clock: Clock;
}

/** A typed client of a service of the node. */
export function clientOf<S extends DescService>({ node, link, clock }: NodeCallParts, service: S): Client<S> {
  return createClient(service, createNodeTransport(link, { node, clock }));
}

/** A link whose calls are carried also while the node takes no new ones. */
export function forReading({ node, link, clock }: NodeCallParts): LiveLink {
  const { nodeId, generation, hello, signal } = link;
  const transport = createNodeTransport(link, { node, clock, evenDraining: true });
  return { nodeId, generation, hello, signal, client: (service) => createClient(service, transport) };
}

/** How often is looked whether calls still run, in milliseconds. */
const settlePollMs = 25;

/** Resolves when no call with a deadline runs on any node, at the latest after `timeoutMs`. */
export async function untilSettled(
  nodes: () => Iterable<NodeState>,
  { timeoutMs, clock }: { readonly timeoutMs: number; readonly clock: Clock },
): Promise<void> {
  const giveUpAt = clock.now() + timeoutMs;
  const isBusy = (): boolean => Iterator.from(nodes()).some(({ link }) => (link?.busyCount ?? 0) > 0);
  while (isBusy() && clock.now() < giveUpAt) await clock.sleep(settlePollMs);
}
