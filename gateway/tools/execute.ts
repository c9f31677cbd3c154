import type { JsonObject } from "@bufbuild/protobuf";
import { findFault, Fault, isFault } from "../../shared/fault/fault.ts";
import { Tools as NodeTools, type ToolAnswer } from "../../shared/gen/fairlead/v1/tools_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { AdmittedPin } from "../files/admission.ts";
import type { WorkspaceHandle, WorkspaceRegistry } from "../files/registry.ts";
import { workspaceUnavailable } from "../files/unavailable.ts";
import type { Links } from "../link/links.ts";
import type { Caller } from "./caller.ts";
import { callJob } from "./job-call.ts";
import type { SurfaceTool } from "./surface.ts";
import type { CallPart, ToolContentPart } from "./tool-result.ts";

/** What an execution stands on. */
export interface ExecuteParts {
  readonly links: Pick<Links, "get" | "standing" | "endJob">;
  readonly clock: Clock;
  readonly workspaces: Pick<WorkspaceRegistry, "acquire">;
}

/** An admitted call. */
export interface Execution {
  readonly tool: SurfaceTool;
  readonly arguments: JsonObject;
  readonly approvalId: string;
  /** Of a tool for files: what was shown and allowed. */
  readonly pin?: AdmittedPin | undefined;
  readonly callId: string;
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
  readonly idempotencyKey?: string | undefined;
  readonly traceparent?: string | undefined;
}

/** Runs an admitted call where its tool lives. */
export async function* execute(
  caller: Caller,
  run: Execution,
  parts: ExecuteParts,
): AsyncGenerator<CallPart> {
  const { host, node } = run.tool;
  if (host) {
    const { signal, deadlineMs } = run;
    const answer = await host.run({ caller, arguments: run.arguments, signal, deadlineMs });
    yield {
      kind: "result",
      result: { content: [{ type: "text", text: answer.text }], details: answer.details },
    };
    return;
  }
  if (!node) throw new Fault("TOOL_FAILED", `${run.tool.name} has nothing to run it`);
  if (run.tool.owner === "core" && caller.session) {
    yield* executeBound(caller.session, run, { ...parts, agent: caller.agent });
    return;
  }
  // A prefixed tool acts on the session's workspace unless it says another, as far as it is that node's.
  const isBound = caller.session?.nodeId === node.id;
  yield* callNode(run, {
    ...parts,
    nodeId: node.id,
    workspace: isBound ? (caller.session?.workspace ?? "") : "",
    agent: caller.agent,
    sessionId: caller.session?.id ?? "",
  });
}

/** How long a node may take to say whether it would refuse a call, in milliseconds. */
const checkDeadlineMs = 20_000;

/** Fails with what the call would be refused with where its tool lives; asked before a person is. */
export async function checkCall(
  caller: Caller,
  run: Pick<Execution, "tool" | "arguments" | "signal">,
  parts: ExecuteParts,
): Promise<void> {
  const { node } = run.tool;
  if (!node) return;
  const { session } = caller;
  const isBound = session?.nodeId === node.id;
  const workspace = isBound ? session.workspace : "";
  if (run.tool.owner === "core") {
    acquireBound(parts.workspaces, { nodeId: node.id, workspace, shown: `${node.alias}:/${workspace}` });
  }
  const call = { name: run.tool.nodeName, arguments: run.arguments, workspace, agent: caller.agent };
  try {
    await parts.links
      .get(node.id)
      .client(NodeTools)
      .checkCall({ call }, { signal: run.signal, deadlineMs: checkDeadlineMs });
  } catch (error) {
    // A machine that cannot be asked refuses when the call comes.
    if (!isFault(error, "VERSION_UNSUPPORTED")) throw error;
  }
}

type BoundParts = ExecuteParts & { readonly agent: string };

/** A core tool: on the bound workspace or not at all. */
async function* executeBound(
  session: NonNullable<Caller["session"]>,
  run: Execution,
  parts: BoundParts,
): AsyncGenerator<CallPart> {
  const shown = `${run.tool.node?.alias ?? session.nodeId}:/${session.workspace}`;
  const handle = acquireBound(parts.workspaces, {
    nodeId: session.nodeId,
    workspace: session.workspace,
    shown,
  });
  // The machine ends a job with its workspace; that the machine is away ends none.
  const isJob = run.tool.description.callClass === "job";
  const signal = isJob ? run.signal : AbortSignal.any([run.signal, handle.signal]);
  try {
    yield* callNode(
      { ...run, signal },
      {
        ...parts,
        nodeId: session.nodeId,
        workspace: session.workspace,
        leaseEpoch: handle.leaseEpoch,
        sessionId: session.id,
      },
    );
    if (!isJob) handle.check();
  } catch (error) {
    // Where the node went away, the workspace is what the session misses.
    if (handle.signal.aborted && !run.signal.aborted && !isFault(error, "OUTCOME_UNKNOWN"))
      throw handle.signal.reason;
    throw error;
  }
}

/** A session was opened on it, so a registry that does not know it has not heard of its node since it started. */
function acquireBound(
  workspaces: ExecuteParts["workspaces"],
  ref: { readonly nodeId: string; readonly workspace: string; readonly shown: string },
): WorkspaceHandle {
  try {
    return workspaces.acquire(ref);
  } catch (error) {
    if (!isFault(error, "NOT_FOUND")) throw error;
    throw workspaceUnavailable("node_offline", { shown: ref.shown, cause: error });
  }
}

interface NodeCall extends BoundParts {
  readonly nodeId: string;
  readonly workspace: string;
  /** The node's number of the registration that a handle was taken of. */
  readonly leaseEpoch?: bigint;
  readonly sessionId: string;
}

async function* callNode(run: Execution, parts: NodeCall): AsyncGenerator<CallPart> {
  try {
    for await (const answer of answersOf(run, parts)) {
      const part = toPart(answer);
      if (part) yield part;
    }
  } catch (error) {
    if (run.signal.aborted && !saysMore(error, run.signal)) throw run.signal.reason;
    throw error;
  }
}

/** Whether how a call ended says more than why it was aborted: nobody knows the outcome, or the node was away all the time. */
export function saysMore(error: unknown, signal: AbortSignal): boolean {
  if (findFault(error, "OUTCOME_UNKNOWN")) return true;
  return isFault(signal.reason, "DEADLINE_EXCEEDED") && findFault(error, "NODE_OFFLINE") !== undefined;
}

async function* answersOf(run: Execution, parts: NodeCall): AsyncGenerator<ToolAnswer> {
  const call = {
    name: run.tool.nodeName,
    arguments: run.arguments,
    workspace: parts.workspace,
    leaseEpoch: parts.leaseEpoch ?? 0n,
    sessionId: parts.sessionId,
    agent: parts.agent,
    approvalId: run.approvalId,
    ...(run.pin ? { pin: run.pin } : {}),
  };
  const { callId, signal, deadlineMs } = run;
  const options = {
    callId,
    signal,
    deadlineMs,
    ...(run.idempotencyKey === undefined ? {} : { idempotencyKey: run.idempotencyKey }),
    ...(run.traceparent === undefined ? {} : { traceparent: run.traceparent }),
  };
  const { callClass } = run.tool.description;
  if (callClass === "job") {
    const alias = run.tool.node?.alias ?? parts.nodeId;
    return yield* callJob({ ...options, nodeId: parts.nodeId, alias, call }, parts);
  }
  const client = parts.links.get(parts.nodeId).client(NodeTools);
  const answers =
    callClass === "idempotent" ? client.callIdempotent({ call }, options) : client.call({ call }, options);
  for await (const { answer } of answers) if (answer) yield answer;
}

function toPart({ part }: ToolAnswer): CallPart | undefined {
  if (part.case === "output") {
    const stream = part.value.stream === "stderr" ? "stderr" : "stdout";
    return { kind: "output", stream, data: part.value.data };
  }
  if (part.case !== "result") return undefined;
  const content = part.value.content.map((piece): ToolContentPart =>
    piece.type === "image"
      ? { type: "image", mediaType: piece.mediaType, data: piece.data }
      : { type: "text", text: piece.text },
  );
  return { kind: "result", result: { content, details: part.value.details ?? {} } };
}
