import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { isProcessAlive } from "../../shared/process/process-mark.ts";
import { endTree } from "../../shared/process/process-tree.ts";
import { readExit, readRecord, toNote, writeExit, type JobExit } from "./job-record.ts";
import { measureSpill } from "./spill.ts";

const proof = { graceMs: 500, proofMs: 2_000 } as const;

/**
 * Ends what a job started whose supervisor is gone, and writes down that nobody knows how it ended; unless that was
 * written down already.
 */
export async function endLostJob(folder: string, id: string, clock: Clock): Promise<JobExit> {
  const written = await readExit(folder);
  if (written) return written;
  const record = await readRecord(folder);
  const { process: leader, marker = "" } = record ?? {};
  // Its id may be another process's by now: then only what has the marker is of the job.
  const pid = leader && isProcessAlive(leader) ? leader.pid : 0;
  const unended = marker === "" ? [] : await endTree({ pid, marker }, { scope: "all", ...proof, clock });
  const now = clock.now();
  const fault = new Fault("OUTCOME_UNKNOWN", "the supervisor of the job ended while it ran", {
    hint: "look at what it did; do not repeat it blindly",
    details: { callId: id, stage: "running", reason: "supervisor_ended" },
  });
  const exit: JobExit = {
    timedOut: false,
    fault: toNote(fault),
    durationMs: Math.max(0, now - (record?.startedAt ?? now)),
    endedAt: now,
    unended,
    stdoutBytes: await measureSpill(folder, "stdout"),
    stderrBytes: await measureSpill(folder, "stderr"),
  };
  if (record) await writeExit(folder, exit);
  return exit;
}
