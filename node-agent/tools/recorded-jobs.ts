import { create } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import {
  NodeGetOutcomeResponseSchema,
  OutcomeState,
  type NodeGetOutcomeResponse,
} from "../../shared/gen/fairlead/v1/link_pb.ts";
import { ToolsCallJobResponseSchema } from "../../shared/gen/fairlead/v1/tools_pb.ts";
import { encodeMessage } from "../../shared/rpc/codec.ts";
import { bytesOf, type Encoded } from "../../shared/rpc/encoded.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import { fromNote } from "../jobs/job-record.ts";
import type { Job } from "../jobs/job.ts";
import type { Jobs } from "../jobs/jobs.ts";
import { answerOfJob, toAnswer } from "./job-answer.ts";

/** What the node's ledger asks about jobs. */
export interface JobAnswers {
  /** How far a job came; undefined when its record is gone. */
  outcome(callId: string): Promise<NodeGetOutcomeResponse | undefined>;
  /** Its answer as `CallJob` gives it, from the first byte on; the reader only looks on. */
  attach(callId: string, signal: AbortSignal): AsyncIterable<Encoded>;
  /** Ends every job. */
  readonly endAll: (fault: Fault) => void;
}

/** The answers of jobs, by the ids of their calls. */
export function createJobAnswers(jobs: Pick<Jobs, "find" | "endAll">): JobAnswers {
  return {
    outcome: async (callId) => {
      const job = await jobs.find(callId);
      return job && (await toOutcome(job));
    },
    attach: async function* attach(callId, signal) {
      const job = await getJob(jobs, callId);
      for await (const answer of answerOfJob(job, { from: start, signal, owns: false }))
        yield encodeMessage(ToolsCallJobResponseSchema, { answer });
    },
    endAll: (fault) => void jobs.endAll(fault).catch(() => undefined),
  };
}

const start = { stdout: 0, stderr: 0 } as const;

/** The job of a call; `NOT_FOUND` when its record is gone. */
export async function getJob(jobs: Pick<Jobs, "find">, callId: string): Promise<Job> {
  const job = await jobs.find(callId);
  if (job) return job;
  throw new Fault("NOT_FOUND", "the node keeps no record of this job", {
    hint: "a record is kept for ten minutes after the end of its job",
    details: { callId: callId.slice(0, 128), side: "node" },
  });
}

async function toOutcome(job: Job): Promise<NodeGetOutcomeResponse> {
  const { exit } = job;
  if (!exit) return create(NodeGetOutcomeResponseSchema, { state: OutcomeState.RUNNING });
  if (exit.fault) {
    const fault = toWireFault(fromNote(exit.fault));
    return create(NodeGetOutcomeResponseSchema, { state: OutcomeState.ENDED, fault });
  }
  const answer = await toAnswer(job, exit);
  const message = bytesOf(encodeMessage(ToolsCallJobResponseSchema, { answer }));
  return create(NodeGetOutcomeResponseSchema, { state: OutcomeState.ENDED, messages: [message] });
}
