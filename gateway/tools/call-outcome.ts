import { fromBinary, toJsonString, type DescMethod } from "@bufbuild/protobuf";
import { isFault, type Fault } from "../../shared/fault/fault.ts";
import { Files } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { Node, OutcomeState, type NodeGetOutcomeResponse } from "../../shared/gen/fairlead/v1/link_pb.ts";
import { ToolsCallJobResponseSchema, Tools, type ToolAnswer } from "../../shared/gen/fairlead/v1/tools_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { noDeadline } from "../../shared/rpc/deadline.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import { methodPath } from "../../shared/rpc/transport.ts";
import type { Links, LiveLink } from "../link/links.ts";
import { outcomeUnknown } from "../link/outcome-unknown.ts";

/** A question about a call that was lost. */
export interface OutcomeQuestion {
  readonly nodeId: string;
  /** The node's alias, for people. */
  readonly alias: string;
  readonly callId: string;
  /** Whether the end of a call that runs is waited for. */
  readonly follow: boolean;
  /** What the asker has of a job's output. */
  readonly stdoutOffset: bigint;
  readonly stderrOffset: bigint;
  readonly signal: AbortSignal;
}

/** What is known of a call. */
export type OutcomePart =
  | { readonly kind: "state"; readonly state: "running" | "ended"; readonly method: string }
  | { readonly kind: "answer"; readonly answer: ToolAnswer }
  /** A message of an answer that is no tool's, as JSON text. */
  | { readonly kind: "message"; readonly json: string };

/** Asks again after so long, in milliseconds. */
const pollMs = 500;

/**
 * How a call stands, as its node wrote it down; nothing is run again. Throws the fault that the call ended with, and
 * `OUTCOME_UNKNOWN` when the node knows nothing of it (any more).
 */
export async function* askOutcome(
  question: OutcomeQuestion,
  { links, clock }: { readonly links: Pick<Links, "get">; readonly clock: Clock },
): AsyncGenerator<OutcomePart> {
  const { nodeId, callId, signal, follow } = question;
  let told = "";
  for (;;) {
    const link = links.get(nodeId);
    const asked = await link.client(Node).getOutcome({ callId }, { signal });
    const { state, method } = asked;
    if (state === OutcomeState.UNKNOWN) throw unknownFault(question);
    const word = state === OutcomeState.RUNNING ? "running" : "ended";
    if (word !== told) yield { kind: "state", state: word, method };
    told = word;
    if (asked.fault) throw fromWireFault(asked.fault);
    if (follow && method === methodPath(Tools.method.callJob)) return yield* followJob(link, question);
    if (state === OutcomeState.ENDED) return yield* partsOf(asked);
    if (!follow) return;
    await clock.sleep(pollMs, { signal });
  }
}

/** The rest of a job's output, as it comes, then how it ended. */
async function* followJob(link: LiveLink, question: OutcomeQuestion): AsyncGenerator<OutcomePart> {
  const { callId, stdoutOffset, stderrOffset, signal } = question;
  const answers = link
    .client(Tools)
    .attachJob({ callId, stdoutOffset, stderrOffset }, { signal, deadlineMs: noDeadline });
  try {
    for await (const { answer } of answers) if (answer) yield { kind: "answer", answer };
  } catch (error) {
    throw isFault(error, "NOT_FOUND") ? unknownFault(question) : error;
  }
}

function* partsOf({ messages, method: path }: NodeGetOutcomeResponse): Generator<OutcomePart> {
  const method = findMethod(path);
  for (const bytes of messages) {
    if (method?.parent === Tools) {
      // Every way to call a tool answers with messages of one shape.
      const { answer } = fromBinary(ToolsCallJobResponseSchema, bytes);
      if (answer) yield { kind: "answer", answer };
    } else if (method) {
      yield { kind: "message", json: toJsonString(method.output, fromBinary(method.output, bytes)) };
    }
  }
}

function findMethod(path: string): DescMethod | undefined {
  return [Tools, Files].flatMap(({ methods }) => [...methods]).find((one) => methodPath(one) === path);
}

function unknownFault({ callId, alias }: OutcomeQuestion): Fault {
  const fault = outcomeUnknown(
    { callId, path: "the call" },
    { alias, stage: "dispatched", reason: "not_recorded" },
  );
  return fault.with({
    hint: "the node keeps an outcome for ten minutes after the call's end; look at what it did, do not repeat it blindly",
  });
}
