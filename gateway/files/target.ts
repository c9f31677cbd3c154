import { Fault, isFault } from "../../shared/fault/fault.ts";
import type { Source, TreeExtent } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { parseRemotePath } from "../../shared/names/remote-path.ts";
import { parseWorkspacePath, toPathPlatform, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { CallContext, CallOptions } from "../../shared/rpc/service.ts";
import type { NodeRecord, Nodes } from "../pairing/nodes.ts";
import { workTimeHeader } from "./asking-headers.ts";
import {
  toDenial,
  type DecideFile,
  type FileKind,
  type FileQuestion,
  type FileVerb,
  type FileVerdict,
} from "./file-question.ts";
import type { WorkspaceHandle, WorkspaceRegistry } from "./registry.ts";

/** What finding a target needs. */
export interface TargetOptions {
  readonly registry: Pick<WorkspaceRegistry, "acquire">;
  readonly nodes: Pick<Nodes, "resolve">;
  readonly decide: DecideFile;
}

/** What a caller names. */
export interface TargetRequest {
  /** `NODE:/NAME`. */
  readonly workspace: string;
  readonly path: string;
  readonly verb: FileVerb;
  readonly kind: FileKind;
  /** The name of the path's field in faults; `path` by default. */
  readonly field?: string;
}

/** Where a caller wants to act, before anything was asked of policy. */
export interface Place {
  readonly node: NodeRecord;
  /** The export's name on the node. */
  readonly workspace: string;
  readonly path: WorkspacePath;
}

/** A question that was answered. */
export interface Judged {
  readonly question: FileQuestion;
  readonly verdict: FileVerdict;
}

/** A path of a workspace that the caller may use, as far as the requested path says. */
export interface Target {
  readonly node: NodeRecord;
  readonly handle: WorkspaceHandle;
  readonly path: WorkspacePath;
  readonly verb: FileVerb;
  readonly kind: FileKind;
  /** Whether it is read through the bootstrap view. */
  readonly isBootstrap: boolean;
  readonly context: CallContext;
  /** Of a tree that would be written: how large it is said to be. */
  readonly extent: TreeExtent | undefined;
  /** What policy says of a path that the node reported, or of the requested one. */
  ask(path: string, stage: FileQuestion["stage"], otherVerb?: "read"): Judged | Promise<Judged>;
  /** From now on what policy would ask about is allowed: a person or a grant allowed the whole of it. */
  allowWhole(): void;
  /** Fails unless policy allows it on `path` as the node reports it. */
  judge(path: string): Promise<void>;
  /**
   * The fault of a denial, for one path among many; a promise only where policy needs to wait. What is read for a
   * change is judged as a read of its own, which nobody was asked about.
   */
  denial(path: string, verb?: "read"): Fault | undefined | Promise<Fault | undefined>;
  /** Whether a deny rule covers `path`, so that it is not even to be named. */
  isHidden(path: string): Promise<boolean>;
}

/** Parses what a caller names: `PATH_INVALID`, `INVALID_ARGUMENT` or `NOT_FOUND`, before anything else happens. */
export async function findPlace(
  options: Pick<TargetOptions, "nodes">,
  request: Pick<TargetRequest, "workspace" | "path" | "field">,
): Promise<Place> {
  const remote = parseRemotePath(request.workspace, { field: "workspace" });
  if (remote.path !== "") {
    throw new Fault("INVALID_ARGUMENT", "workspace names a path; the path has a field of its own", {
      details: { field: "workspace" },
    });
  }
  const node = await options.nodes.resolve(remote.node);
  const platform = toPathPlatform(node.platform);
  const path = parseWorkspacePath(request.path, { platform, field: request.field ?? "path" });
  return { node, workspace: remote.workspace, path };
}

/** Takes a handle once policy has not refused the requested path: `POLICY_DENIED`, `WORKSPACE_ACCESS_UNAVAILABLE`. */
export async function openTarget(
  options: Pick<TargetOptions, "registry" | "decide">,
  place: Place,
  use: Pick<TargetRequest, "verb" | "kind"> & {
    readonly context: CallContext;
    readonly extent?: TreeExtent | undefined;
    readonly isBootstrap?: boolean | undefined;
  },
): Promise<Target> {
  const { node, workspace, path: requestedPath } = place;
  const platform = toPathPlatform(node.platform);
  const { verb, kind, context } = use;
  const ask: Target["ask"] = (at, stage, otherVerb) => {
    const path = stage === "requested" ? requestedPath : parseReported(at, platform);
    const what = otherVerb ? { verb: otherVerb, kind: otherVerb } : { verb, kind };
    const question: FileQuestion = { node, workspace, ...what, path, requestedPath, stage, context };
    const answer = options.decide(question);
    return answer instanceof Promise
      ? answer.then((verdict) => ({ question, verdict }))
      : { question, verdict: answer };
  };
  let isAllowed = false;
  const refusal = ({ question, verdict }: Judged): Fault | undefined =>
    verdict.decision === "ask" && isAllowed ? undefined : toDenial(question, verdict);
  const denial: Target["denial"] = (at, otherVerb) => {
    const judged = ask(at, "canonical", otherVerb);
    const decide = otherVerb ? ({ question, verdict }: Judged) => toDenial(question, verdict) : refusal;
    return judged instanceof Promise ? judged.then(decide) : decide(judged);
  };
  const first = await ask(requestedPath, "requested");
  const refused = first.verdict.decision === "ask" ? undefined : refusal(first);
  if (refused) throw refused;
  const shown = `${node.alias}:/${workspace}`;
  const handle = options.registry.acquire({ nodeId: node.id, workspace, shown });
  return {
    node,
    handle,
    path: requestedPath,
    verb,
    kind,
    isBootstrap: use.isBootstrap ?? false,
    context,
    extent: use.extent,
    ask,
    denial,
    isHidden: async (at) => {
      const { verdict } = await ask(at, "canonical");
      return verdict.decision === "deny" && verdict.isHidden === true;
    },
    allowWhole: () => {
      isAllowed = true;
    },
    judge: async (at) => {
      const fault = await denial(at);
      if (fault) throw fault;
    },
  };
}

/** A path that a node reports is outside data too: one that could not be asked for is not answered with. */
function parseReported(path: string, platform: "posix" | "windows"): WorkspacePath {
  try {
    return parseWorkspacePath(path, { platform });
  } catch (error) {
    // A tree may be asked for whose paths become too long only below its root.
    if (isFault(error, "LIMIT_REACHED")) throw error;
    throw new Fault("PATH_INVALID", "the node reported a path that is none", { cause: error });
  }
}

/** What a short call to the node takes over from the caller's. */
export function callOptions(context: CallContext): CallOptions {
  const workMs = Number(context.metadata.get(workTimeHeader) ?? Number.NaN);
  const { remainingMs } = context;
  return { ...streamOptions(context), deadlineMs: workMs > 0 ? Math.min(workMs, remainingMs) : remainingMs };
}

/** What a transfer takes over from the caller's call. */
export function streamOptions(context: CallContext): CallOptions {
  return {
    signal: context.signal,
    deadlineMs: context.remainingMs,
    ...(context.idempotencyKey === undefined ? {} : { idempotencyKey: context.idempotencyKey }),
    ...(context.traceparent === undefined ? {} : { traceparent: context.traceparent }),
  };
}

/** The node's source with what only the gateway knows. */
export function toSource(target: Target, source: Source | undefined): Source {
  if (!source) {
    throw new Fault("INTERNAL", "the node's answer does not say where it comes from");
  }
  return { ...source, nodeId: target.node.id, workspace: target.handle.workspace };
}

/** Transfers of so many bytes and more run beside the link, so that short calls never wait behind them. */
const bulkFromBytes = 1024n * 1024n;

/** The options of a transfer of so many bytes. */
export function transferOptions(context: CallContext, sizeBytes: bigint): CallOptions {
  return { ...streamOptions(context), bulk: sizeBytes >= bulkFromBytes };
}

/** How many bytes a read will bring, as far as that can be told before; a failure is the read's own to report. */
export async function measureRead(
  target: Target,
  request: { readonly offset: bigint; readonly length: bigint },
): Promise<bigint> {
  const { offset, length } = request;
  if (length > 0n && length < bulkFromBytes) return length;
  try {
    const { entry } = await target.handle.files.stat({ path: target.path }, callOptions(target.context));
    const restBytes = (entry?.sizeBytes ?? 0n) - offset;
    return length > 0n && length < restBytes ? length : restBytes;
  } catch (error) {
    if (isFault(error)) return 0n;
    throw error;
  }
}
