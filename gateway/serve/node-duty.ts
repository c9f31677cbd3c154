import type { MessageInitShape } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import type { Admin, LinkFactsSchema, NodeSummarySchema } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { ServiceImplementation } from "../../shared/rpc/service.ts";
import type { Drains } from "../link/drains.ts";
import type { Links, NodeFacts } from "../link/links.ts";
import type { NodeRecord, Nodes } from "../pairing/nodes.ts";

/** What the methods stand on that take nodes out of service. */
export interface DutyMethodsOptions {
  readonly nodes: Pick<Nodes, "resolve">;
  readonly links: Pick<Links, "find" | "end">;
  readonly drains: Pick<Drains, "drain" | "undrain">;
  /** A node as it is now. */
  readonly summary: (node: NodeRecord) => MessageInitShape<typeof NodeSummarySchema>;
}

type Methods = Pick<ServiceImplementation<typeof Admin>, "drainNode" | "undrainNode" | "disconnectNode">;

/** `DrainNode`, `UndrainNode` and `DisconnectNode`. */
export function dutyMethods({ nodes, links, drains, summary }: DutyMethodsOptions): Methods {
  return {
    drainNode: async (request) => {
      const node = requireLiving(await nodes.resolve(request.node));
      await drains.drain(node.id, {
        withinMs: request.withinMs === undefined ? undefined : Number(request.withinMs),
        untilMs: request.untilMs === 0n ? undefined : Number(request.untilMs),
        note: request.note,
      });
      return { node: summary(node) };
    },
    undrainNode: async (request) => {
      const node = requireLiving(await nodes.resolve(request.node));
      const { already } = await drains.undrain(node.id);
      return { node: summary(node), already };
    },
    disconnectNode: async (request) => {
      const node = requireLiving(await nodes.resolve(request.node));
      const wasLinked = links.find(node.id) !== undefined;
      await links.end(node.id, disconnectedFault(node));
      return { node: summary(node), wasLinked };
    },
  };
}

function requireLiving(node: NodeRecord): NodeRecord {
  if (node.revokedAt === undefined) return node;
  throw new Fault("IDENTITY_REVOKED", `node ${node.alias} is revoked: nothing of it is in service`, {
    details: { node: node.alias },
  });
}

function disconnectedFault({ alias }: NodeRecord): Fault {
  return new Fault("NODE_OFFLINE", `an administrator ended the link of ${alias}`, {
    details: { node: alias, reason: "disconnected" },
  });
}

/** What is known of a link, as it travels. */
export function toLinkFacts(facts: NodeFacts): MessageInitShape<typeof LinkFactsSchema> {
  const { drain } = facts;
  return {
    protocol: facts.protocol,
    upgrade: facts.upgrade ?? "",
    installedVersion: facts.installedVersion,
    droppedMessages: BigInt(facts.droppedCount),
    timedOut: facts.timedOut.map(({ path, count }) => ({ method: methodName(path), count: BigInt(count) })),
    ...(drain
      ? {
          drain: {
            sinceMs: BigInt(drain.sinceMs),
            deadlineMs: BigInt(drain.deadlineMs),
            untilMs: BigInt(drain.untilMs ?? 0),
            note: drain.note,
          },
        }
      : {}),
  };
}

/** `/fairlead.v1.Files/Stat` is `Files.Stat`. */
function methodName(path: string): string {
  return path.slice(path.lastIndexOf(".") + 1).replace("/", ".");
}
