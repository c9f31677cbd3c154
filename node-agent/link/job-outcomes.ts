import type { Fault } from "../../shared/fault/fault.ts";
import type { NodeGetOutcomeResponse } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Encoded } from "../../shared/rpc/encoded.ts";

/** What the ledger asks about jobs, which have a record of their own. */
export interface RecordedJobs {
  /** How far a job came; undefined when its record is gone. */
  outcome(callId: string): Promise<NodeGetOutcomeResponse | undefined>;
  /** The job's answer from its first byte on, encoded; faults with `OUTCOME_UNKNOWN` when its record is gone. */
  attach(callId: string, signal: AbortSignal): AsyncIterable<Encoded>;
  /** Ends every job, also those that nobody waits for. */
  readonly endAll: (fault: Fault) => void;
}
