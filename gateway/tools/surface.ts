import { digestOf } from "../../shared/content/digest.ts";
import { compareByUtf8 } from "../../shared/names/byte-order.ts";
import type { PolicyDecision } from "../policy/policy.ts";
import type { ToolDescription } from "./descriptor.ts";
import type { HostTool } from "./host-tool.ts";

/** Whose a tool is. */
export type ToolOwner = "core" | "host" | "node";

/** The node that runs a tool. */
export interface ToolNode {
  readonly id: string;
  readonly alias: string;
  /** Whose rules its paths go by, as the node reports it. */
  readonly platform: string;
}

/** A tool that a session might have. */
export interface Candidate {
  /** The name that it would be listed under. */
  readonly name: string;
  readonly owner: ToolOwner;
  readonly description: ToolDescription;
  /** The node's own name of it; the canonical one for other owners. */
  readonly nodeName: string;
  readonly node?: ToolNode | undefined;
  /** How a tool of the gateway itself runs. */
  readonly host?: HostTool | undefined;
}

/** A tool that a session has. */
export interface SurfaceTool extends Candidate {
  /** Whether each call asks a person, and by which rule; absent when it does not. */
  readonly asks?: { readonly rule: string; readonly side: "gateway" | "node" } | undefined;
}

/** Why a candidate is not on the surface. */
export interface Removal {
  readonly name: string;
  readonly owner: ToolOwner;
  /** `name_conflict` or `policy`. */
  readonly step: "name_conflict" | "policy";
  /** What of the step: the scope whose list or profile it was, or the owner of the name. */
  readonly layer: string;
  readonly rule: string;
  readonly reason: string;
  readonly hint?: string | undefined;
  readonly candidate: Candidate;
}

/** What a session may call, and why not the rest. */
export interface Surface {
  /** In order of their names. */
  readonly tools: readonly SurfaceTool[];
  /** In order of their names. */
  readonly removed: readonly Removal[];
  /** Names the surface: equal digest, equal tools. */
  readonly digest: string;
}

/** Everything that a surface is computed from. */
export interface SurfaceInputs {
  readonly candidates: readonly Candidate[];
  /** What policy says to a candidate; pure. */
  readonly decide: (candidate: Candidate) => PolicyDecision;
}

const precedence: readonly ToolOwner[] = ["core", "host", "node"];

/**
 * The surface of a session: each candidate is either a tool or in exactly one removal. Pure, and the same whatever the
 * order of the candidates: names of the gateway win over those of nodes, and among nodes the lower id.
 */
export function computeSurface({ candidates, decide }: SurfaceInputs): Surface {
  const tools = new Map<string, SurfaceTool>();
  const removed: Removal[] = [];
  for (const candidate of candidates.toSorted(compareCandidates)) {
    const holder = tools.get(candidate.name);
    const verdict = decide(candidate);
    if (holder) removed.push(conflict(candidate, holder));
    else if (verdict.decision === "deny") removed.push(denied(candidate, verdict));
    else tools.set(candidate.name, { ...candidate, asks: asksOf(candidate, verdict) });
  }
  const sorted = [...tools.values()].toSorted((a, b) => compareByUtf8(a.name, b.name));
  return {
    tools: sorted,
    removed: removed.toSorted((a, b) => compareByUtf8(a.name, b.name)),
    digest: digestOf(JSON.stringify(sorted.map(toContract))),
  };
}

function compareCandidates(a: Candidate, b: Candidate): number {
  return (
    precedence.indexOf(a.owner) - precedence.indexOf(b.owner) ||
    compareByUtf8(a.name, b.name) ||
    compareByUtf8(a.node?.id ?? "", b.node?.id ?? "") ||
    compareByUtf8(a.nodeName, b.nodeName)
  );
}

/** What a client goes by: a change of it is a change of the surface. */
function toContract({ name, owner, description, node }: SurfaceTool): readonly unknown[] {
  const { title, description: text, schemaDigest, effect, callClass } = description;
  return [name, owner, node?.alias ?? "", title, text, schemaDigest, effect, callClass];
}

function asksOf(candidate: Candidate, verdict: PolicyDecision): SurfaceTool["asks"] {
  if (verdict.decision === "ask") return { rule: verdict.rule, side: "gateway" };
  return candidate.description.asks ? { rule: "exec.mode", side: "node" } : undefined;
}

function conflict(candidate: Candidate, holder: Candidate): Removal {
  const layer = holder.node ? `${holder.owner}:${holder.node.alias}` : holder.owner;
  return {
    name: candidate.name,
    owner: candidate.owner,
    step: "name_conflict",
    layer,
    rule: "names.first",
    reason: `the name ${candidate.name} belongs to a tool of ${layer}`,
    candidate,
  };
}

function denied(candidate: Candidate, verdict: PolicyDecision): Removal {
  return {
    name: candidate.name,
    owner: candidate.owner,
    step: "policy",
    layer: verdict.rule.slice(0, Math.max(0, verdict.rule.lastIndexOf("."))) || verdict.rule,
    rule: verdict.rule,
    reason: verdict.reason,
    hint: verdict.hint,
    candidate,
  };
}
