import type { MessageInitShape } from "@bufbuild/protobuf";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import { Tools, type ToolAnswer, type ToolCallSchema } from "../../shared/gen/fairlead/v1/tools_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { noDeadline } from "../../shared/rpc/deadline.ts";
import { methodPath } from "../../shared/rpc/transport.ts";
import type { Standing } from "../link/ask-ledger.ts";
import type { Links, LiveLink } from "../link/links.ts";
import { outcomeUnknown } from "../link/outcome-unknown.ts";

/** A call of a tool that runs as a job. */
export interface JobCall {
  readonly nodeId: string;
  /** The node's alias, for people. */
  readonly alias: string;
  readonly call: MessageInitShape<typeof ToolCallSchema>;
  readonly callId: string;
  /** Aborts at the call's deadline too. */
  readonly signal: AbortSignal;
  readonly deadlineMs: number;
  readonly idempotencyKey?: string | undefined;
  readonly traceparent?: string | undefined;
}

/** What job calls stand on. */
export interface JobCallParts {
  readonly links: Pick<Links, "get" | "standing" | "endJob">;
  readonly clock: Clock;
}

const path = methodPath(Tools.method.callJob);

/**
 * Runs a job and gives its answer. When its link is lost it comes back to the job over the next one, at the byte where it
 * was; cancelled meanwhile, it has the job ended as soon as the node can be told. A node that is not back by the deadline
 * leaves `OUTCOME_UNKNOWN`.
 */
export async function* callJob(job: JobCall, parts: JobCallParts): AsyncGenerator<ToolAnswer> {
  const { nodeId, call, callId, signal, deadlineMs, idempotencyKey, traceparent } = job;
  const { links, clock } = parts;
  const link = links.get(nodeId);
  const sentAt = clock.now();
  const at = { stdout: 0n, stderr: 0n };
  let answers: AsyncIterable<{ readonly answer?: ToolAnswer | undefined }> = link.client(Tools).callJob(
    { call },
    {
      signal,
      deadlineMs,
      callId,
      ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
      ...(traceparent === undefined ? {} : { traceparent }),
    },
  );
  for (let hasBegun = false; ; hasBegun = true) {
    try {
      for await (const { answer } of answers) {
        if (!answer) continue;
        advance(at, answer);
        yield answer;
      }
      return;
    } catch (error) {
      if (!isLoss(error, hasBegun)) throw error;
    }
    const next = await comeBack(job, parts, { hello: link.hello, sentAt });
    const offsets = { stdoutOffset: at.stdout, stderrOffset: at.stderr };
    answers = next
      .client(Tools)
      .attachJob({ callId, ...offsets, owns: true }, { signal, deadlineMs: noDeadline });
  }
}

function advance(at: { stdout: bigint; stderr: bigint }, { part }: ToolAnswer): void {
  if (part.case !== "output") return;
  const { stream, data, offset } = part.value;
  at[stream === "stderr" ? "stderr" : "stdout"] = offset + BigInt(data.byteLength);
}

/** Whether the link broke under a call that may have begun. One that comes back has begun already. */
function isLoss(error: unknown, hasBegun: boolean): boolean {
  if (!isFault(error, "NODE_OFFLINE")) return false;
  const { stage, reason } = error.details;
  return reason !== "gateway_stopping" && (hasBegun || stage === "dispatched" || stage === "running");
}

interface Sent {
  readonly hello: LiveLink["hello"];
  readonly sentAt: number;
}

/** The link over which the job is met again. */
async function comeBack(job: JobCall, { links }: JobCallParts, sent: Sent): Promise<LiveLink> {
  const { nodeId, alias, callId, signal, deadlineMs } = job;
  const unknown = (reason?: string): Fault =>
    outcomeUnknown(
      { callId, path },
      { alias, stage: "running", ...(reason === undefined ? {} : { reason }) },
    );
  let standing: Standing;
  try {
    standing = await links.standing(nodeId, { callId, ...sent }, { signal });
  } catch (error) {
    if (!signal.aborted) throw unknown(faultFromError(error).code.toLowerCase());
    const fault = faultFromError(signal.reason);
    links.endJob(nodeId, { callId, fault, untilMs: sent.sentAt + deadlineMs });
    throw isFault(fault, "DEADLINE_EXCEEDED") ? unknown() : fault;
  }
  switch (standing.kind) {
    case "running":
      return standing.link;
    case "ended":
      if (standing.fault) throw standing.fault;
      return standing.link;
    case "never_began":
      throw new Fault("NODE_OFFLINE", "the link broke before the job began; it did not run", {
        details: { callId, node: alias, stage: "dispatched" },
      });
    case "unknown":
      throw unknown();
  }
}
