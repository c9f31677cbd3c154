import { Fault } from "../../shared/fault/fault.ts";
import { splitToolName } from "../../shared/names/prefixed-name.ts";
import type { Links } from "../link/links.ts";
import type { NodeRecord } from "../pairing/nodes.ts";
import type { Caller } from "./caller.ts";
import type { NodeToolSet } from "./catalogue.ts";
import type { Removal, Surface } from "./surface.ts";

/** What a miss is judged by. */
export interface MissParts {
  readonly surface: Surface;
  readonly nodes: readonly NodeRecord[];
  readonly links: Pick<Links, "presence">;
  readonly findSet: (nodeId: string) => NodeToolSet | undefined;
  readonly caller: Caller;
  /** Names of the skills that the caller sees. */
  readonly skills: readonly string[];
}

/** Why `name` cannot be called: removed, its node away, refused, or unknown with the nearest names of the surface. */
export function toMissFault(name: string, parts: MissParts): Fault {
  const removal = parts.surface.removed.find((one) => one.name === name);
  if (removal) return toRemovalFault(removal, parts.caller);
  const split = splitToolName(name);
  const node = split ? parts.nodes.find((one) => one.alias === split.alias) : undefined;
  if (node && split) {
    const set = parts.findSet(node.id);
    if (!set) return toOfflineFault(name, node, parts.links);
    const problem = set.problems.find((one) => one.name.toLowerCase() === split.tool);
    if (problem) {
      return new Fault(
        "TOOL_NOT_EXPOSED",
        `${name} was refused when its node published it: ${problem.fault.message}`,
        {
          hint: `fairlead nodes show ${node.alias}`,
          details: { state: "registered", rule: problem.fault.code, node: node.alias },
        },
      );
    }
  }
  if (parts.skills.includes(name)) {
    return new Fault("NOT_FOUND", `${name} is a skill, not a tool`, {
      hint: `read it with fairlead skills read ${name}, and follow what it says`,
      details: { tool: name, skill: name, suggestions: [] },
    });
  }
  const near = suggest(
    name,
    parts.surface.tools.map((tool) => tool.name),
  );
  return new Fault("NOT_FOUND", `there is no tool ${JSON.stringify(name.slice(0, 64))}`, {
    hint: near.length === 0 ? "fairlead tools ls" : `did you mean ${near.join(", ")}?`,
    details: { tool: name.slice(0, 64), suggestions: near },
  });
}

/**
 * A tool that policy or a name took off a session's surface; to the operator, who has all tools, policy says no. So does a
 * node's profile to everybody: what it keeps away is the act, not a line in a list.
 */
function toRemovalFault(removal: Removal, caller: Caller): Fault {
  const isProfile = removal.rule.startsWith("profile.");
  const isRefusal = removal.step === "policy" && (isProfile || caller.session === undefined);
  return new Fault(isRefusal ? "POLICY_DENIED" : "TOOL_NOT_EXPOSED", removal.reason, {
    ...(removal.hint === undefined ? {} : { hint: removal.hint }),
    details: {
      state: "exposed",
      rule: removal.rule,
      side: "gateway",
      step: removal.step,
      tool: removal.name,
    },
  });
}

function toOfflineFault(name: string, node: NodeRecord, links: Pick<Links, "presence">): Fault {
  const { state, sinceMs, reason } = links.presence(node.id);
  return new Fault("NODE_OFFLINE", `${name} cannot be called: its node ${node.alias} is ${state}`, {
    hint: `fairlead nodes show ${node.alias}`,
    details: { node: node.alias, state, reason, since: new Date(sinceMs).toISOString() },
  });
}

/** Up to three names that are near `name`, nearest first. */
export function suggest(name: string, known: readonly string[]): readonly string[] {
  const wanted = name.slice(0, 64);
  return known
    .map((one) => ({ one, far: distance(wanted, one) }))
    .filter(({ one, far }) => far <= Math.max(2, Math.floor(one.length / 3)) || one.endsWith(`__${wanted}`))
    .toSorted((a, b) => a.far - b.far || (a.one < b.one ? -1 : 1))
    .slice(0, 3)
    .map(({ one }) => one);
}

function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
