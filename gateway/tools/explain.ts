import { splitToolName } from "../../shared/names/prefixed-name.ts";
import type { Links } from "../link/links.ts";
import type { NodeRecord } from "../pairing/nodes.ts";
import type { Caller } from "./caller.ts";
import type { ToolCatalogue } from "./catalogue.ts";
import type { LastCall } from "./last-calls.ts";
import { suggest } from "./missing-tool.ts";
import type { Candidate, Removal, Surface, SurfaceTool } from "./surface.ts";

/** The six states of a tool, in order. */
export const toolStates = ["installed", "discovered", "registered", "exposed", "called", "executed"] as const;

/** One of the six. */
export type ToolStateName = (typeof toolStates)[number];

/** Whether a state holds, and what it was judged by. */
export interface ToolStateAnswer {
  readonly state: ToolStateName;
  readonly holds: "yes" | "no" | "not_yet";
  readonly evidence: string;
}

/** Why a tool can or cannot be called. */
export interface Explanation {
  readonly name: string;
  /** In order, up to the first that does not hold. */
  readonly states: readonly ToolStateAnswer[];
  /** The first state that failed; empty when none did. */
  readonly failed: ToolStateName | "";
  readonly reason: string;
  /** The next command; empty when nothing has to be done. */
  readonly hint: string;
}

/** What an explanation goes by. */
export interface ExplainParts {
  readonly surface: Surface;
  readonly nodes: readonly NodeRecord[];
  readonly caller: Caller;
  readonly links: Pick<Links, "presence">;
  readonly catalogue: Pick<ToolCatalogue, "find">;
  /** The caller's latest call of it. */
  readonly last: LastCall | undefined;
}

interface Failure {
  readonly evidence: string;
  readonly hint: string;
}

type Answer = { readonly holds: string } | { readonly fails: Failure } | { readonly waits: string };

/** The six states of the tool `name` for this caller, from the record that lists and calls go by. */
export function explainTool(name: string, parts: ExplainParts): Explanation {
  const tool = parts.surface.tools.find((one) => one.name === name);
  const removal = parts.surface.removed.find((one) => one.name === name);
  const candidate = tool ?? removal?.candidate;
  const questions: Readonly<Record<ToolStateName, () => Answer>> = {
    installed: () => judgeInstalled(name, candidate, parts),
    discovered: () => judgeDiscovered(name, candidate, parts),
    registered: () => judgeRegistered(name, candidate, parts),
    exposed: () => judgeExposed(tool, removal),
    called: () => judgeCalled(tool, parts.last),
    executed: () => judgeExecuted(parts.last),
  };
  const states: ToolStateAnswer[] = [];
  for (const state of toolStates) {
    const answer = questions[state]();
    if ("fails" in answer) {
      const { evidence, hint } = answer.fails;
      states.push({ state, holds: "no", evidence });
      return { name, states, failed: state, reason: evidence, hint };
    }
    if ("holds" in answer) states.push({ state, holds: "yes", evidence: answer.holds });
    else states.push({ state, holds: "not_yet", evidence: answer.waits });
  }
  return { name, states, failed: "", reason: "", hint: "" };
}

function findNode(
  name: string,
  candidate: Candidate | undefined,
  nodes: readonly NodeRecord[],
): NodeRecord | undefined {
  const alias = candidate?.node?.alias ?? splitToolName(name)?.alias;
  return nodes.find((node) => node.alias === alias);
}

function judgeInstalled(name: string, candidate: Candidate | undefined, parts: ExplainParts): Answer {
  if (candidate?.owner === "host") return { holds: "part of the gateway" };
  const node = findNode(name, candidate, parts.nodes);
  if (node?.revokedAt !== undefined) {
    return fail(`the node ${node.alias} is revoked`, "fairlead invite");
  }
  if (node) return { holds: `the node ${node.alias} is paired` };
  const near = suggest(
    name,
    parts.surface.tools.map((tool) => tool.name),
  );
  return fail(
    `nothing that is paired or installed brings a tool ${name.slice(0, 64)}`,
    near.length === 0 ? "fairlead tools ls" : `fairlead tools explain ${near[0] ?? ""}`,
  );
}

function judgeDiscovered(name: string, candidate: Candidate | undefined, parts: ExplainParts): Answer {
  const node = findNode(name, candidate, parts.nodes);
  if (candidate?.owner === "host" || !node) return { holds: "always there" };
  const { state, reason, sinceMs } = parts.links.presence(node.id);
  const set = parts.catalogue.find(node.id);
  if (set) return { holds: `the node publishes ${set.tools.length} tools (epoch ${set.epoch})` };
  const since = new Date(sinceMs).toISOString();
  return fail(
    `the node ${node.alias} is ${state} (${reason}) since ${since}`,
    `fairlead nodes show ${node.alias}`,
  );
}

function judgeRegistered(name: string, candidate: Candidate | undefined, parts: ExplainParts): Answer {
  if (candidate) return { holds: "its name and schema are valid" };
  const node = findNode(name, candidate, parts.nodes);
  const own = splitToolName(name)?.tool;
  const set = node ? parts.catalogue.find(node.id) : undefined;
  const problem = set?.problems.find((one) => one.name.toLowerCase() === own);
  const show = `fairlead nodes show ${node?.alias ?? ""}`;
  if (problem) return fail(`it was refused: ${problem.fault.message} (${problem.fault.code})`, show);
  return fail(`the node publishes no tool ${own ?? name}`, show);
}

function judgeExposed(tool: SurfaceTool | undefined, removal: Removal | undefined): Answer {
  if (tool) return { holds: "it is in this caller's list" };
  const reason = removal?.reason ?? "it is not in this caller's list";
  return fail(`${reason} (${removal?.rule ?? "surface"})`, removal?.hint ?? "fairlead tools ls");
}

function judgeCalled(tool: SurfaceTool | undefined, last: LastCall | undefined): Answer {
  if (!last)
    return { waits: tool?.asks ? `never called; a call asks a person (${tool.asks.rule})` : "never called" };
  if (last.admitted || !last.ended) return { holds: `called at ${new Date(last.at).toISOString()}` };
  return fail(
    `the latest call was refused: ${last.reason ?? ""} (${last.code ?? "INTERNAL"})`,
    last.hint ?? "mend the arguments and call it again",
  );
}

function judgeExecuted(last: LastCall | undefined): Answer {
  if (!last) return { waits: "never executed" };
  if (!last.ended) return { waits: "it runs" };
  if (last.code === undefined)
    return { holds: `the latest call ended at ${new Date(last.at).toISOString()}` };
  return fail(`the latest call failed: ${last.reason ?? ""} (${last.code})`, last.hint ?? "call it again");
}

function fail(evidence: string, hint: string): Answer {
  return { fails: { evidence, hint } };
}
