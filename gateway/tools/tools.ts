import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Approvals } from "../approvals/approvals.ts";
import type { WorkspaceRegistry } from "../files/registry.ts";
import type { Links } from "../link/links.ts";
import type { NodeRecord, Nodes } from "../pairing/nodes.ts";
import type { Policy, PolicyDecision } from "../policy/policy.ts";
import { toCanonicalName } from "../policy/tool-names.ts";
import type { CallHooks } from "./call-hooks.ts";
import { askOutcome, type OutcomePart, type OutcomeQuestion } from "./call-outcome.ts";
import type { Caller } from "./caller.ts";
import { gatherCandidates } from "./candidates.ts";
import type { ToolCatalogue } from "./catalogue.ts";
import { explainTool, type Explanation } from "./explain.ts";
import type { FileGate } from "./file-gate.ts";
import type { HostTool } from "./host-tool.ts";
import { LastCalls } from "./last-calls.ts";
import { toMissFault } from "./missing-tool.ts";
import { runCall, type CallRequest } from "./run-call.ts";
import { computeSurface, type Candidate, type Surface, type SurfaceTool } from "./surface.ts";
import type { CallPart } from "./tool-result.ts";

/** What the tools stand on. */
export interface ToolsOptions {
  readonly catalogue: ToolCatalogue;
  readonly links: Pick<Links, "find" | "get" | "presence" | "standing" | "endJob">;
  readonly nodes: Pick<Nodes, "list" | "resolve">;
  /** Where the workspaces of sessions are acquired. */
  readonly workspaces: Pick<WorkspaceRegistry, "acquire">;
  readonly policy: Policy;
  readonly approvals: Pick<Approvals, "ask">;
  /** The rules for files; absent: there are none. */
  readonly fileGate?: FileGate;
  /** The gateway's own tools. */
  readonly host?: readonly HostTool[];
  readonly hooks?: readonly CallHooks[];
  /** Names of the skills that a caller sees, so that a call of one is told what it is. */
  readonly skillNames?: (caller: Caller) => Promise<readonly string[]>;
  readonly clock: Clock;
}

/** The tools of every caller: one surface for lists, calls and explanations, one executor for all calls. */
export interface Tools {
  surface(caller: Caller): Promise<Surface>;
  /** Runs a call; leaving early cancels it. Faults as the manual says; the first part has the call's id. */
  call(caller: Caller, request: CallRequest): AsyncIterable<CallPart>;
  explain(caller: Caller, name: string): Promise<Explanation>;
  /**
   * How a call stands that was lost, asked of the node that ran it; a session asks of nodes whose tools it sees. Throws the
   * fault that the call ended with.
   */
  outcome(caller: Caller, request: OutcomeRequest): AsyncIterable<OutcomePart>;
  /** Says when surfaces may differ from before; compare digests. */
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<void>;
}

/** A call that was lost, as its caller asks about it. */
export interface OutcomeRequest extends Omit<OutcomeQuestion, "nodeId" | "alias"> {
  /** Alias, id or a prefix of the id; empty: the node of the session's workspace. */
  readonly node: string;
}

/** Tools that stand on what the options give; nothing has to be ended. */
export function createTools(options: ToolsOptions): Tools {
  const calls = new LastCalls(options.clock);
  const look = async (caller: Caller): Promise<Look> => {
    const nodes = await options.nodes.list();
    const decide = decideWith({ policy: options.policy, nodes, agent: caller.agent });
    const candidates = gatherCandidates(caller, {
      sets: options.catalogue.list(),
      nodes,
      host: options.host ?? [],
    });
    return { nodes, decide, surface: computeSurface({ candidates, decide }) };
  };
  const find = async (caller: Caller, name: string): Promise<Found> => {
    const { nodes, decide, surface } = await look(caller);
    const canonical = toCanonicalName(name);
    const tool = surface.tools.find((one) => one.name === canonical);
    if (tool) return { tool, verdict: decide(tool) };
    throw toMissFault(canonical, {
      surface,
      nodes,
      caller,
      links: options.links,
      findSet: (nodeId) => options.catalogue.find(nodeId),
      skills: (await options.skillNames?.(caller)) ?? [],
    });
  };
  return {
    surface: async (caller) => (await look(caller)).surface,
    call: (caller, request) => runCall(caller, request, { ...options, calls, find }),
    explain: async (caller, name) => {
      const { nodes, surface } = await look(caller);
      return explainTool(toCanonicalName(name), {
        surface,
        nodes,
        caller,
        links: options.links,
        catalogue: options.catalogue,
        last: calls.find(caller, toCanonicalName(name)),
      });
    },
    outcome: async function* outcome(caller, { node: asked, ...question }) {
      const node = await options.nodes.resolve(asked === "" ? (caller.session?.nodeId ?? "") : asked);
      const { surface } = await look(caller);
      const isSeen = surface.tools.some((tool) => tool.node?.id === node.id);
      if (caller.session && caller.session.nodeId !== node.id && !isSeen)
        throw new Fault("NOT_FOUND", `the session sees no node ${asked}`, { hint: "fairlead tools ls" });
      if (node.revokedAt !== undefined) throw neverKnown(node, question.callId);
      yield* askOutcome({ ...question, nodeId: node.id, alias: node.alias }, options);
    },
    changes: ({ signal }) => watchCatalogue(options.catalogue, signal),
  };
}

/** A node that left, or was revoked, answers no question any more. */
function neverKnown({ alias, revokedAt = 0 }: NodeRecord, callId: string): Fault {
  const at = new Date(revokedAt).toISOString();
  return new Fault(
    "OUTCOME_UNKNOWN",
    `${alias} is no node since ${at}: nobody can ask it how the call ended`,
    {
      hint: "what still ran there ended with its identity; look at the machine itself, and do not repeat it blindly",
      details: { callId, node: alias, reason: "revoked" },
    },
  );
}

/** A tool that was found on its caller's surface. */
export interface Found {
  readonly tool: SurfaceTool;
  /** What policy says to it now. */
  readonly verdict: PolicyDecision;
}

interface Look {
  readonly nodes: readonly NodeRecord[];
  readonly decide: (candidate: Candidate) => PolicyDecision;
  readonly surface: Surface;
}

interface DecideParts {
  readonly policy: Policy;
  readonly nodes: readonly NodeRecord[];
  readonly agent: string;
}

function decideWith({ policy, nodes, agent }: DecideParts): (candidate: Candidate) => PolicyDecision {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  return (candidate) => {
    const node = candidate.node ? byId.get(candidate.node.id) : undefined;
    if (candidate.node && !node)
      throw new Fault("NOT_FOUND", `the node of ${candidate.name} is not paired any more`);
    return policy.decideTool({
      agent,
      node,
      name: candidate.name,
      ownName: candidate.description.name,
      effect: candidate.description.effect,
    });
  };
}

async function* watchCatalogue(catalogue: ToolCatalogue, signal: AbortSignal): AsyncGenerator<void> {
  for await (const _nodeId of catalogue.changes({ signal })) yield undefined;
}
