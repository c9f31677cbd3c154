import { create } from "@bufbuild/protobuf";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import { SourceSchema } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { CallContext } from "../../shared/rpc/service.ts";
import { judgeBefore } from "../files/admission.ts";
import { noWaitHeader } from "../files/asking-headers.ts";
import type { FileActor, FilePeople, FileQuestion, FileVerdict } from "../files/file-question.ts";
import { performStream, type Operation, type OperationOptions } from "../files/operation.ts";
import type { WorkspaceRegistry } from "../files/registry.ts";
import { workspaceUnavailable } from "../files/unavailable.ts";
import type { FileGate, FileGateCall, FileLeave } from "./file-gate.ts";
import { filterListing } from "./filter-listing.ts";
import type { CallPart } from "./tool-result.ts";

/** What a gate stands on. */
export interface FileGateOptions extends Pick<
  OperationOptions,
  "nodes" | "clock" | "recorder" | "onPolicyChange"
> {
  readonly registry: Pick<WorkspaceRegistry, "acquire" | "list">;
  readonly decide: (question: FileQuestion, actor: FileActor) => FileVerdict | Promise<FileVerdict>;
  /** The people, of whom a call hears that it waits for one. */
  readonly people: (onWaiting: (approvalId: string) => void) => FilePeople;
}

/** How long a node may take to say what a path leads to, in milliseconds. */
const lookDeadlineMs = 20_000;

/** A gate before the tools that act on files. */
export function createFileGate(options: FileGateOptions): FileGate {
  return async function* gate(call, run) {
    const left = new AbortController();
    const asked = Promise.withResolvers<string>();
    const operation = toOptions(options, call, asked.resolve);
    const parts = performStream(
      operation,
      toRequest(options, call, AbortSignal.any([call.signal, left.signal])),
      (admitted) => answerOf(admitted, call, run),
    );
    let waiting: Promise<string> | undefined = asked.promise;
    try {
      for (;;) {
        const next = parts.next();
        // A caller that leaves while it waits hears of no failure any more.
        next.catch(() => undefined);
        const approvalId = waiting ? await Promise.race([waiting, next.then(nothing, nothing)]) : "";
        if (approvalId !== "") {
          waiting = undefined;
          yield { kind: "waiting", approvalId };
        }
        const result = await next;
        if (result.done === true) return;
        yield result.value;
      }
    } finally {
      left.abort(new Fault("CANCELLED", "the caller has left"));
      await parts.return();
    }
  };
}

const nothing = (): string => "";

function toOptions(
  options: FileGateOptions,
  { caller, tool, isBound }: FileGateCall,
  onWaiting: (approvalId: string) => void,
): OperationOptions {
  const { nodes, clock, recorder, onPolicyChange, registry } = options;
  const actor: FileActor = { agent: caller.agent, sessionId: caller.session?.id, tool };
  return {
    nodes,
    clock,
    ...(recorder ? { recorder } : {}),
    ...(onPolicyChange ? { onPolicyChange } : {}),
    registry: {
      acquire: (ref) => {
        try {
          return registry.acquire(ref);
        } catch (error) {
          // A session was opened on it: a registry that does not know it has not heard of its node since it started.
          if (!isBound || !isFault(error, "NOT_FOUND") || !("shown" in ref)) throw error;
          throw workspaceUnavailable("node_offline", { shown: ref.shown ?? "", cause: error });
        }
      },
    },
    decide: (question) => options.decide(question, actor),
    actorOf: () => actor,
    people: options.people(onWaiting),
  };
}

function toRequest(
  options: FileGateOptions,
  call: FileGateCall,
  signal: AbortSignal,
): Parameters<typeof performStream>[1] {
  const { node, path, verb, terms, callId, noWait } = call;
  const name = call.workspace === "" ? onlyWorkspace(options.registry, node.id) : call.workspace;
  const context: CallContext = {
    callId,
    remainingMs: lookDeadlineMs,
    metadata: new Map(noWait ? [[noWaitHeader, "1"]] : []),
    peer: { address: "" },
    signal,
  };
  const kind = call.isDeep && verb === "list" ? "list_tree" : verb;
  // A call has one id, so that it is not run again under another approval.
  return { workspace: `${node.alias}:/${name}`, path, verb, kind, terms, context, takesStream: true };
}

function onlyWorkspace(registry: FileGateOptions["registry"], nodeId: string): string {
  const offered = registry.list().filter((one) => one.nodeId === nodeId && one.state === "available");
  const [only, ...more] = offered;
  if (only && more.length === 0) return only.workspace;
  throw new Fault("INVALID_ARGUMENT", "say which workspace of the node is meant", {
    details: { field: "workspace", expected: offered.map((one) => one.workspace) },
  });
}

/** The answer of the tool, judged by what it was read from, before any of it is handed on. */
async function* answerOf(
  operation: Operation,
  { verb }: FileGateCall,
  run: (leave: FileLeave) => AsyncIterable<CallPart>,
): AsyncGenerator<CallPart> {
  const { target, pin, context } = operation;
  for await (const part of run({ pin, signal: context.signal })) {
    if (part.kind !== "result") {
      yield part;
      continue;
    }
    const { canonicalPath: said, sizeBytes, digest } = part.result.details;
    const canonicalPath = typeof said === "string" ? said : await judgeBefore(target);
    const source = create(SourceSchema, { requestedPath: target.path, canonicalPath });
    if (verb === "write") operation.made(source);
    else await operation.judged(source);
    operation.tell({
      ...(typeof sizeBytes === "number" ? { sizeBytes: BigInt(sizeBytes) } : {}),
      ...(typeof digest === "string" ? { digest } : {}),
    });
    yield verb === "list" ? { kind: "result", result: await filterListing(target, part.result) } : part;
  }
}
