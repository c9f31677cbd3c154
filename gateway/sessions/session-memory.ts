import type { MessageInitShape } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import type {
  SessionsGetMemoryResponseSchema,
  SessionsSearchMemoryResponseSchema,
} from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import { parseRemotePath } from "../../shared/names/remote-path.ts";
import { isWorkspacePath, parseWorkspacePath } from "../../shared/names/workspace-path.ts";
import { ignoresCaseOn } from "../files/ignores-case.ts";
import type { WorkspaceRegistry } from "../files/registry.ts";
import type {
  MemoryIndexState,
  MemoryVectors,
  MemoryWorkspace,
  MemoryWorkspaces,
} from "../memory/memory-workspace.ts";
import { toAddress } from "../memory/memory-workspace.ts";
import type { MemoryIndexes } from "../memory/memory.ts";
import type { Nodes } from "../pairing/nodes.ts";
import type { FileDecision, Policy } from "../policy/policy.ts";
import type { Caller } from "../tools/caller.ts";

/** What is searched for. */
export interface MemoryQuestion {
  readonly query: string;
  /** `NODE:/NAME`; empty: the session's, or for the operator every one that may be read. */
  readonly workspace?: string | undefined;
  readonly limit?: number | undefined;
  readonly waitFresh?: boolean | undefined;
  /** How long to wait for that, in milliseconds; 30 s by default, at most 10 min. */
  readonly waitMs?: number | undefined;
  /** How long vectors may take at most, in milliseconds; as configured by default. */
  readonly vectorsMs?: number | undefined;
  readonly signal: AbortSignal;
}

/** Which lines of which file. */
export interface MemoryLines {
  /** `NODE:/NAME`; empty: the session's. */
  readonly workspace?: string | undefined;
  readonly path: string;
  readonly from?: number | undefined;
  readonly lines?: number | undefined;
  readonly digest?: string | undefined;
  readonly signal: AbortSignal;
}

/** What a search found, as it is told to clients. */
export type MemoryFindings = MessageInitShape<typeof SessionsSearchMemoryResponseSchema>;

/** Lines of a memory file, as they are told to clients. */
export type MemoryAnswer = MessageInitShape<typeof SessionsGetMemoryResponseSchema>;

/** A wait, 30 s by default, that leaves time for the answer before the deadline of its call; both in milliseconds. */
export function fitWait(waitMs: number, remainingMs: number): number {
  const spareMs = Math.min(1_000, remainingMs / 4);
  return Math.floor(Math.min(waitMs === 0 ? 30_000 : waitMs, remainingMs - spareMs));
}

/** Memory as a caller sees it: no more than policy lets it read. */
export interface SessionMemory {
  search(caller: Caller, question: MemoryQuestion): Promise<MemoryFindings>;
  get(caller: Caller, lines: MemoryLines): Promise<MemoryAnswer>;
  status(caller: Caller, workspace?: string): Promise<readonly MemoryIndexState[]>;
  /** Where vectors come from, and how it stands with them. */
  vectors(): MemoryVectors;
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<unknown>;
}

/** What the memory of sessions stands on. */
export interface SessionMemoryOptions {
  readonly memory: MemoryIndexes;
  readonly workspaces: Pick<MemoryWorkspaces, "list">;
  readonly nodes: Pick<Nodes, "list" | "resolve">;
  readonly policy: Pick<Policy, "decideFile">;
  /** Knows whose volume takes upper and lower case for one; none does by default. */
  readonly registry?: Pick<WorkspaceRegistry, "ignoresCase">;
}

/** Memory of sessions over the indexes, narrowed by policy. */
export function createSessionMemory(options: SessionMemoryOptions): SessionMemory {
  const choose = (caller: Caller, wanted: string | undefined): Promise<readonly MemoryWorkspace[]> =>
    chooseWorkspaces(caller, wanted ?? "", options);
  return {
    search: async (caller, { query, workspace, limit, waitFresh, waitMs, vectorsMs, signal }) => {
      const chosen = await choose(caller, workspace);
      const judge = await judgePaths(caller, options);
      const found = await options.memory.search({
        mayShow: (one, path) => judge(one, path)?.decision === "allow",
        query,
        workspaceIds: chosen.map(({ id }) => id),
        ...(limit === undefined || limit === 0 ? {} : { limit }),
        waitFresh: waitFresh === true,
        ...(waitMs === undefined ? {} : { waitMs }),
        ...(vectorsMs === undefined ? {} : { vectorsMs }),
        signal,
      });
      const { hits, workspaces, partial, vectors } = found;
      return { hits: [...hits], workspaces: [...workspaces], partial, vectors };
    },
    get: async (caller, { workspace, path, from, lines, digest, signal }) => {
      const [chosen, ...more] = await choose(caller, workspace);
      if (!chosen || more.length > 0) {
        throw new Fault("INVALID_ARGUMENT", "say which workspace the file is in", {
          hint: "name it as NODE:/NAME",
          details: {
            field: "workspace",
            expected: [chosen, ...more].flatMap((one) => (one ? [toAddress(one)] : [])),
          },
        });
      }
      const verdict = (await judgePaths(caller, options))(chosen, path);
      if (verdict && verdict.decision !== "allow") throw toDenial(verdict, path);
      return await options.memory.get({
        workspaceId: chosen.id,
        path,
        ...(from === undefined ? {} : { from }),
        ...(lines === undefined ? {} : { lines }),
        ...(digest === undefined || digest === "" ? {} : { digest }),
        signal,
      });
    },
    status: async (caller, workspace) => {
      const chosen = await choose({ agent: caller.agent }, workspace);
      const judge = await judgePaths(caller, options);
      const states = await options.memory.status(chosen.map(({ id }) => id));
      return states.map((state) => {
        const one = chosen.find((place) => toAddress(place) === state.workspace);
        const shown = state.problems.filter(({ path = "" }) => one && judge(one, path)?.decision === "allow");
        return { ...state, problems: shown };
      });
    },
    vectors: () => options.memory.vectors(),
    changes: (watch) => options.memory.changes(watch),
  };
}

/** What policy says of a file for the caller; undefined for a path that is none, which its node refuses. */
type JudgePath = (workspace: MemoryWorkspace, path: string) => FileDecision | undefined;

/** Policy as it is now: what a rule closes is in no answer from the next call on, whatever is indexed. */
async function judgePaths(
  { agent }: Caller,
  { nodes, policy, registry }: SessionMemoryOptions,
): Promise<JudgePath> {
  const known = new Map((await nodes.list()).map((node) => [node.id, node]));
  return ({ nodeId, name: workspace }, text) => {
    const node = known.get(nodeId);
    if (!node || !isWorkspacePath(text)) return undefined;
    const place = {
      workspace,
      path: parseWorkspacePath(text),
      ignoresCase: registry ? ignoresCaseOn(node, workspace, registry) : false,
    };
    return policy.decideFile({ agent, node, verb: "read", place });
  };
}

/** Nobody is asked about what memory shows: what a person would have to allow is read as a file, where that is asked. */
function toDenial(verdict: FileDecision, path: string): Fault {
  const asks = verdict.decision === "ask";
  const hint = asks ? "read it with fairlead files cat, which asks" : verdict.hint;
  const reason = asks ? `${path} is asked about at each read (${verdict.rule})` : verdict.reason;
  return new Fault("POLICY_DENIED", reason, {
    ...(hint === undefined ? {} : { hint }),
    details: { path, rule: verdict.rule, side: verdict.side },
  });
}

async function chooseWorkspaces(
  caller: Caller,
  wanted: string,
  options: SessionMemoryOptions,
): Promise<readonly MemoryWorkspace[]> {
  const all = options.workspaces.list();
  const nodes = new Map((await options.nodes.list()).map((node) => [node.id, node]));
  const judge = (one: MemoryWorkspace): ReturnType<Policy["decideFile"]> | undefined => {
    const node = nodes.get(one.nodeId);
    return node && options.policy.decideFile({ agent: caller.agent, node, verb: "read" });
  };
  if (wanted === "" && !caller.session) return all.filter((one) => judge(one)?.decision === "allow");
  const place = wanted === "" ? boundPlace(caller) : await namedPlace(wanted, options.nodes);
  const found = all.find((one) => one.nodeId === place.nodeId && one.name === place.name);
  const verdict = found && judge(found);
  if (!found || !verdict) {
    throw new Fault("NOT_FOUND", `there is no workspace ${wanted === "" ? place.name : wanted} with memory`, {
      hint: "fairlead memory status",
      details: { field: "workspace" },
    });
  }
  if (verdict.decision === "allow") return [found];
  throw new Fault("POLICY_DENIED", verdict.reason, {
    ...(verdict.hint === undefined ? {} : { hint: verdict.hint }),
    details: { rule: verdict.rule, side: verdict.side },
  });
}

interface Place {
  readonly nodeId: string;
  readonly name: string;
}

function boundPlace({ session }: Caller): Place {
  return { nodeId: session?.nodeId ?? "", name: session?.workspace ?? "" };
}

async function namedPlace(wanted: string, nodes: Pick<Nodes, "resolve">): Promise<Place> {
  const { node, workspace } = parseRemotePath(wanted, { field: "workspace" });
  return { nodeId: (await nodes.resolve(node)).id, name: workspace };
}
