import { Fault, isFault } from "../../shared/fault/fault.ts";
import type { Source } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { parseRemotePath } from "../../shared/names/remote-path.ts";
import { parseWorkspacePath, toPathPlatform, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { CallContext, CallOptions } from "../../shared/rpc/service.ts";
import type { NodeRecord, Nodes } from "../pairing/nodes.ts";
import { toDenial, type DecideFile, type FileQuestion, type FileVerb } from "./file-question.ts";
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
  /** The name of the path's field in faults; `path` by default. */
  readonly field?: string;
}

/** A path of a workspace that the caller may use, as far as the requested path says. */
export interface Target {
  readonly node: NodeRecord;
  readonly handle: WorkspaceHandle;
  readonly path: WorkspacePath;
  readonly context: CallContext;
  /** Fails unless policy allows `verb` on `path` as the node reports it. */
  judge(path: string, verb?: FileVerb): Promise<void>;
  /** The fault of a denial, for one path among many; a promise only where policy needs to wait. */
  denial(path: string, verb?: FileVerb): Fault | undefined | Promise<Fault | undefined>;
}

/**
 * Parses, asks policy about the requested path and takes a handle, in this order and before any call to the node.
 * Fails with `PATH_INVALID`, `INVALID_ARGUMENT`, `NOT_FOUND`, `POLICY_DENIED` or `WORKSPACE_ACCESS_UNAVAILABLE`.
 */
export async function findTarget(
  options: TargetOptions,
  request: TargetRequest,
  context: CallContext,
): Promise<Target> {
  const remote = parseRemotePath(request.workspace, { field: "workspace" });
  if (remote.path !== "") {
    throw new Fault("INVALID_ARGUMENT", "workspace names a path; the path has a field of its own", {
      details: { field: "workspace" },
    });
  }
  const node = await options.nodes.resolve(remote.node);
  const platform = toPathPlatform(node.platform);
  const path = parseWorkspacePath(request.path, { platform, field: request.field ?? "path" });
  const ask = (
    at: WorkspacePath,
    stage: FileQuestion["stage"],
    verb: FileVerb,
  ): Fault | undefined | Promise<Fault | undefined> => {
    const question: FileQuestion = { node, workspace: remote.workspace, verb, path: at, stage, context };
    const verdict = options.decide(question);
    return verdict instanceof Promise
      ? verdict.then((answer) => toDenial(question, answer))
      : toDenial(question, verdict);
  };
  const denied = await ask(path, "requested", request.verb);
  if (denied) throw denied;
  const handle = options.registry.acquire({
    nodeId: node.id,
    workspace: remote.workspace,
    shown: `${node.alias}:/${remote.workspace}`,
  });
  const denial = (at: string, verb = request.verb): ReturnType<typeof ask> =>
    ask(parseReported(at, platform), "canonical", verb);
  return {
    node,
    handle,
    path,
    context,
    denial,
    judge: async (at, verb) => {
      const refused = await denial(at, verb);
      if (refused) throw refused;
    },
  };
}

/** A path that a node reports is outside data too: one that could not be asked for is not answered with. */
function parseReported(path: string, platform: "posix" | "windows"): WorkspacePath {
  try {
    return parseWorkspacePath(path, { platform });
  } catch (error) {
    throw new Fault("PATH_INVALID", "the node reported a path that is none", { cause: error });
  }
}

/**
 * Asks policy about the canonical path of something that is about to be changed. What does not exist yet, or may be
 * written but not read, has none that the node would tell; its answer to the change is judged then.
 */
export async function judgeBefore(target: Target, path: WorkspacePath): Promise<void> {
  let canonicalPath: string;
  try {
    const answer = await target.handle.files.stat({ path }, callOptions(target.context));
    ({ canonicalPath } = toSource(target, answer.source));
  } catch (error) {
    if (isFault(error, "NOT_FOUND") || isFault(error, "POLICY_DENIED")) return;
    throw error;
  }
  await target.judge(canonicalPath);
}

/** What a call to the node takes over from the caller's. */
export function callOptions(context: CallContext): CallOptions {
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
  return { ...callOptions(context), bulk: sizeBytes >= bulkFromBytes };
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
