import { randomUUID } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import { digestOf } from "../../shared/content/digest.ts";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault, findFault } from "../../shared/fault/fault.ts";
import { startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import { resolveDeadlineMs } from "../../shared/rpc/deadline.ts";
import type { Approvals } from "../approvals/approvals.ts";
import type { CallFacts, CallHooks } from "./call-hooks.ts";
import type { Caller } from "./caller.ts";
import { checkCall, execute, saysMore, type ExecuteParts } from "./execute.ts";
import { checkListCall, type FileGate, type FileLeave, toGateCall } from "./file-gate.ts";
import type { LastCalls } from "./last-calls.ts";
import type { SurfaceTool } from "./surface.ts";
import { limitContent, limitDetails, resultLimits, type CallPart, type ToolResult } from "./tool-result.ts";
import type { Found } from "./tools.ts";

/** A call as its caller asks for it. */
export interface CallRequest {
  readonly name: string;
  /** Missing counts as none. */
  readonly arguments: JsonObject | null | undefined;
  /** Ends the call. */
  readonly signal: AbortSignal;
  /** Milliseconds that the tool may take; 60 s by default, 24 h at most. Waiting for a person does not count. */
  readonly deadlineMs?: number | undefined;
  /** Repeats with the same key run once. */
  readonly idempotencyKey?: string | undefined;
  /** `APPROVAL_REQUIRED` at once instead of waiting for a person. */
  readonly noWait?: boolean | undefined;
  /** W3C trace context. */
  readonly traceparent?: string | undefined;
}

/** What a call goes through. */
export interface CallParts extends ExecuteParts {
  readonly approvals: Pick<Approvals, "ask">;
  /** The rules for files; absent: there are none. */
  readonly fileGate?: FileGate;
  readonly hooks?: readonly CallHooks[];
  readonly clock: Clock;
  readonly calls: LastCalls;
  /** The tool on the caller's surface as it is now, or why it is not there. */
  readonly find: (caller: Caller, name: string) => Promise<Found>;
}

/**
 * One call, step by step: surface, trusted policy, hooks before it, its final arguments, a person where one must allow
 * it, a last check, execution, hooks behind it, the limits of what is kept. Each step is taken once.
 */
export async function* runCall(
  caller: Caller,
  request: CallRequest,
  parts: CallParts,
): AsyncGenerator<CallPart> {
  const deadlineMs = resolveDeadlineMs(request.deadlineMs);
  caller.session?.lease.check();
  if (request.signal.aborted) throw toCallFault(request.signal.reason, request.signal);
  const found = await parts.find(caller, request.name);
  const callId = randomUUID();
  const left = new AbortController();
  const signals = [request.signal, left.signal, ...(caller.session ? [caller.session.lease.signal] : [])];
  const facts = freezeFacts(caller, { found, callId, signal: AbortSignal.any(signals) });
  yield { kind: "started", callId };
  try {
    const admitted = yield* admit(caller, { ...request, signal: facts.signal }, { ...parts, facts, found });
    parts.calls.note(caller, facts.tool, { callId, admitted: true, ended: false });
    yield* carryOut(caller, { ...request, ...admitted, deadlineMs }, { ...parts, facts });
    parts.calls.note(caller, facts.tool, { callId, admitted: true, ended: true });
  } catch (error) {
    const fault = toCallFault(error, facts.signal);
    const before = parts.calls.find(caller, facts.tool);
    const admitted = before?.callId === callId && before.admitted;
    const { code, message: reason, hint } = fault;
    parts.calls.note(caller, facts.tool, { callId, admitted, ended: true, code, reason, hint });
    throw "callId" in fault.details ? fault : fault.with({ details: { callId } });
  } finally {
    left.abort(new Fault("CANCELLED", "the caller has left"));
    noteLeaving(caller, facts, parts.calls);
  }
}

/** An aborted call failed for the reason of the abort; a reason that is no fault is a plain cancel. */
function toCallFault(error: unknown, signal: AbortSignal): Fault {
  if (!signal.aborted || saysMore(error, signal)) return faultFromError(error);
  const { reason } = signal;
  return findFault(reason) ?? new Fault("CANCELLED", "the call was cancelled", { cause: reason });
}

/** A caller that stopped reading ends its call too. */
function noteLeaving(caller: Caller, { callId, tool }: CallFacts, calls: LastCalls): void {
  const last = calls.find(caller, tool);
  if (last?.callId !== callId || last.ended) return;
  calls.note(caller, tool, { ...last, ended: true, code: "CANCELLED", reason: "the caller has left" });
}

interface FactParts {
  readonly found: Found;
  readonly callId: string;
  readonly signal: AbortSignal;
}

function freezeFacts(caller: Caller, { found, callId, signal }: FactParts): CallFacts {
  return Object.freeze({
    callId,
    tool: found.tool.name,
    owner: found.tool.owner,
    node: found.tool.node?.alias ?? "",
    agent: caller.agent,
    sessionId: caller.session?.id ?? "",
    workspace: caller.session?.workspace ?? "",
    signal,
  });
}

interface StepParts extends CallParts {
  readonly facts: CallFacts;
  readonly found: Found;
}

interface Admitted {
  readonly tool: SurfaceTool;
  readonly arguments: JsonObject;
  readonly approvalId: string;
}

/** Everything before the effect; says when a person is waited for, and gives what was judged. */
async function* admit(
  caller: Caller,
  request: CallRequest,
  parts: StepParts,
): AsyncGenerator<CallPart, Admitted> {
  const asked = Promise.withResolvers<string>();
  const judged = judge(caller, request, { ...parts, onWaiting: asked.resolve });
  const approvalId = await Promise.race([asked.promise, judged.then(() => "")]);
  if (approvalId !== "") {
    // A caller that leaves here ends the waiting through its signal, and nobody hears how.
    judged.catch(() => undefined);
    yield { kind: "waiting", approvalId };
  }
  return await judged;
}

interface JudgeParts extends StepParts {
  readonly onWaiting: (approvalId: string) => void;
}

/** Gives the tool and the arguments that were judged. */
async function judge(caller: Caller, request: CallRequest, parts: JudgeParts): Promise<Admitted> {
  const { facts, found } = parts;
  let given: JsonObject = request.arguments ?? {};
  for (const hooks of parts.hooks ?? []) await hooks.trustedPolicy?.(facts, structuredClone(given));
  for (const hooks of parts.hooks ?? []) {
    given = (await hooks.beforeToolCall?.(facts, structuredClone(given))) ?? given;
  }
  facts.signal.throwIfAborted();
  found.tool.description.check(given);
  checkListCall(found.tool, given);
  const approvalId = await askWhenNeeded(caller, { ...request, arguments: given }, parts);
  if (approvalId === "") return { tool: found.tool, arguments: given, approvalId };
  // The world went on while a person thought: what they allowed must still be what would run.
  const now = await parts.find(caller, facts.tool);
  if (toCovered(caller, now.tool, given) !== toCovered(caller, found.tool, given)) {
    throw new Fault("APPROVAL_REQUIRED", `${facts.tool} is not what it was when it was allowed`, {
      hint: "repeat the call",
      details: { approvalId },
    });
  }
  return { tool: now.tool, arguments: given, approvalId };
}

async function askWhenNeeded(
  caller: Caller,
  request: CallRequest & { readonly arguments: JsonObject },
  parts: JudgeParts,
): Promise<string> {
  const { tool } = parts.found;
  if (!tool.asks) return "";
  // Nobody is asked for what would be refused all the same.
  await checkCall(caller, { tool, arguments: request.arguments, signal: parts.facts.signal }, parts);
  const where = tool.node ? ` on ${tool.node.alias}` : "";
  const workspace = caller.session?.workspace;
  return await parts.approvals.ask(
    {
      title: `${caller.agent}: ${tool.nodeName}${where}`,
      detail: JSON.stringify({
        tool: tool.name,
        ...(workspace === undefined ? {} : { workspace }),
        arguments: request.arguments,
      }),
      agent: caller.agent,
      sessionId: caller.session?.id,
      nodeId: tool.node?.id,
      rule: tool.asks.rule,
      digest: digestOf(toCovered(caller, tool, request.arguments)),
    },
    { signal: parts.facts.signal, noWait: request.noWait === true, onWaiting: parts.onWaiting },
  );
}

/** Everything that an approval covers: one changed byte is another request. */
function toCovered(caller: Caller, tool: SurfaceTool, given: JsonObject): string {
  const { session } = caller;
  const { schemaDigest } = tool.description;
  return JSON.stringify([
    [caller.agent, session?.id ?? "", session?.nodeId ?? "", session?.workspace ?? ""],
    [tool.owner, tool.node?.id ?? "", tool.description.name, schemaDigest],
    sortKeys(given),
  ]);
}

function sortKeys(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sortKeys);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return entries.map(([key, inner]) => [key, sortKeys(inner)]);
}

interface CarriedRequest extends Omit<CallRequest, "arguments">, Admitted {
  readonly deadlineMs: number;
}

interface TimedRun {
  readonly request: CarriedRequest;
  readonly leave: FileLeave;
}

/** Execution within its own time, which begins once nobody is waited for any more. */
async function* runInTime(
  caller: Caller,
  { request, leave }: TimedRun,
  parts: CallParts & { readonly facts: CallFacts },
): AsyncGenerator<CallPart> {
  const { facts, clock } = parts;
  using deadline = startDeadline({ timeoutMs: request.deadlineMs, signal: leave.signal, clock });
  try {
    // Directly before the effect: whoever waited may have lost the right to it.
    deadline.signal.throwIfAborted();
    caller.session?.lease.check();
    const run = { ...request, pin: leave.pin, signal: deadline.signal, callId: facts.callId };
    yield* execute(caller, run, parts);
  } catch (error) {
    throw toCallFault(error, deadline.signal);
  }
}

/** Execution and what follows it; the hooks behind it see every end. */
async function* carryOut(
  caller: Caller,
  request: CarriedRequest,
  parts: CallParts & { readonly facts: CallFacts },
): AsyncGenerator<CallPart> {
  const { facts, clock } = parts;
  const startedAt = clock.now();
  let result: ToolResult | undefined;
  let fault: Fault | undefined;
  try {
    const { callId, signal } = facts;
    const noWait = request.noWait === true;
    const run = (leave: FileLeave): AsyncIterable<CallPart> => runInTime(caller, { request, leave }, parts);
    const gated = parts.fileGate && toGateCall(caller, request.tool, { ...request, callId, noWait, signal });
    for await (const part of gated && parts.fileGate ? parts.fileGate(gated, run) : run({ signal })) {
      if (part.kind === "result") result = part.result;
      else yield part;
    }
    if (!result) throw new Fault("TOOL_FAILED", `${facts.tool} ended without a result`);
  } catch (error) {
    fault = toCallFault(error, facts.signal);
    throw fault;
  } finally {
    const ending = { result, fault, durationMs: clock.now() - startedAt };
    for (const hooks of parts.hooks ?? []) await hooks.afterToolCall?.(facts, ending);
  }
  const bounded = {
    content: limitContent(result.content, resultLimits.contentBytes),
    details: result.details,
  };
  const kept = { ...bounded, details: limitDetails(result.details, resultLimits.keptDetailsBytes) };
  for (const hooks of parts.hooks ?? []) hooks.toolResultPersist?.(facts, kept);
  yield { kind: "result", result: bounded };
}
