import { coreTools } from "../../shared/core-tools/core-tools.ts";
import { isAlias } from "../../shared/names/alias.ts";
import { compareByUtf8 } from "../../shared/names/byte-order.ts";
import { toToolName } from "../../shared/names/prefixed-name.ts";
import type { NodeRecord } from "../pairing/nodes.ts";
import type { Caller } from "./caller.ts";
import type { NodeToolSet } from "./catalogue.ts";
import { describeSchema, type ToolDescription } from "./descriptor.ts";
import type { HostTool } from "./host-tool.ts";
import type { Candidate } from "./surface.ts";

/** What candidates are gathered from. */
export interface CandidateSources {
  readonly sets: readonly NodeToolSet[];
  readonly nodes: readonly NodeRecord[];
  readonly host: readonly HostTool[];
}

const boundTools: readonly ToolDescription[] = coreTools.map((tool) => ({
  name: tool.name,
  title: tool.title,
  description: tool.description,
  ...describeSchema(tool.inputSchema),
  effect: tool.effect,
  callClass: tool.callClass,
  asks: false,
}));

/**
 * Every tool that `caller` might have: the core tools of its workspace, the gateway's own, and all that connected nodes
 * publish, prefixed. The core tools stay while their node is away.
 */
export function gatherCandidates(caller: Caller, sources: CandidateSources): readonly Candidate[] {
  const byId = new Map(sources.nodes.map((node) => [node.id, node]));
  const candidates: Candidate[] = [];
  const bound = caller.session ? byId.get(caller.session.nodeId) : undefined;
  if (bound) {
    const published = sources.sets.find((set) => set.nodeId === bound.id)?.tools ?? [];
    for (const description of boundTools) {
      // The machine's own wish to be asked holds for its tools under every name.
      const asks = published.some((tool) => tool.name === description.name && tool.asks);
      candidates.push({
        name: description.name,
        owner: "core",
        description: { ...description, asks },
        nodeName: description.name,
        node: { id: bound.id, alias: bound.alias, platform: bound.platform },
      });
    }
  }
  for (const tool of sources.host) {
    const { description } = tool;
    candidates.push({
      name: description.name,
      owner: "host",
      description,
      nodeName: description.name,
      host: tool,
    });
  }
  for (const set of sources.sets.toSorted((a, b) => compareByUtf8(a.nodeId, b.nodeId))) {
    const node = byId.get(set.nodeId);
    if (node && node.revokedAt === undefined) candidates.push(...prefixed(node, set));
  }
  return candidates;
}

function prefixed(node: NodeRecord, set: NodeToolSet): readonly Candidate[] {
  const { alias, id, platform } = node;
  if (!isAlias(alias)) return [];
  return set.tools.map((tool) => ({
    name: toToolName({ alias, nodeId: id, name: tool.name }),
    owner: "node",
    description: tool,
    nodeName: tool.nodeName,
    node: { id, alias, platform },
  }));
}
