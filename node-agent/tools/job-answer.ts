import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { OutputKeeper, type KeptOutput } from "../../shared/process/kept-output.ts";
import { fromNote, type JobExit } from "../jobs/job-record.ts";
import type { Job, JobOutput, OutputPosition } from "../jobs/job.ts";
import { toResult, type ToolPart } from "./tool-run.ts";

/** Whose answer of a job it is. */
export interface JobAnswerOptions {
  /** What its reader has already. */
  readonly from: OutputPosition;
  /** Its reader's. */
  readonly signal: AbortSignal;
  /** Whether the job ends when its reader leaves. */
  readonly owns: boolean;
}

/** The answer of a job from a position on: output as it comes, then how it ended. */
export async function* answerOfJob(job: Job, options: JobAnswerOptions): AsyncGenerator<ToolPart> {
  const { from, signal, owns } = options;
  const output = job.follow(from, signal);
  // Whoever reads all of it needs not read it again for the result.
  const keepers = from.stdout + from.stderr === 0 ? new Keepers() : undefined;
  let hasEnded = false;
  try {
    for (;;) {
      const next = await output.next();
      if (next.done === true) {
        hasEnded = true;
        yield await toAnswer(job, next.value, keepers?.take(next.value));
        return;
      }
      const { stream, offset, data } = next.value;
      keepers?.push(next.value);
      yield { part: { case: "output", value: { stream, data, offset: BigInt(offset) } } };
    }
  } catch (error) {
    // An agent that stops leaves the job to the next one.
    hasEnded ||= !signal.aborted;
    throw error;
  } finally {
    await output.return(neverRead);
    if (owns && !hasEnded) await job.end(reasonOf(signal));
  }
}

/** Keeps beginning and end of the output that goes by. */
class Keepers {
  readonly #streams = { stdout: new OutputKeeper(), stderr: new OutputKeeper() };

  push({ stream, data }: JobOutput): void {
    this.#streams[stream].push(data);
  }

  /** What was kept, unless something did not go by. */
  take(exit: JobExit): KeptStreams | undefined {
    const [stdout, stderr] = [this.#streams.stdout.take(), this.#streams.stderr.take()];
    const isWhole = stdout.totalBytes === exit.stdoutBytes && stderr.totalBytes === exit.stderrBytes;
    return isWhole ? { stdout, stderr } : undefined;
  }
}

type KeptStreams = Awaited<ReturnType<Job["kept"]>>;

/** What a generator that is left needs as its result. */
const neverRead: JobExit = {
  timedOut: false,
  durationMs: 0,
  endedAt: 0,
  unended: [],
  stdoutBytes: 0,
  stderrBytes: 0,
};

function reasonOf(signal: AbortSignal): Fault {
  return signal.aborted
    ? faultFromError(signal.reason)
    : new Fault("CANCELLED", "the caller has left", { details: { reason: "caller_left" } });
}

/** Ends a job with its workspace. */
export function endWithWorkspace(job: Job, workspace: AbortSignal): void {
  const onAbort = (): void => void job.end(faultFromError(workspace.reason)).catch(() => undefined);
  if (workspace.aborted) return onAbort();
  workspace.addEventListener("abort", onAbort, { once: true });
  void job.ended.then(() => workspace.removeEventListener("abort", onAbort));
}

/** How a job that has ended answers; throws the fault that it was ended with. */
export async function toAnswer(job: Job, exit: JobExit, read?: KeptStreams): Promise<ToolPart> {
  if (exit.fault) throw fromNote(exit.fault);
  const kept = read ?? (await job.kept());
  const stdout = toText(kept.stdout);
  const stderr = toText(kept.stderr);
  const text = [
    stdout,
    ...(stderr === "" ? [] : [stdout === "" || stdout.endsWith("\n") ? "" : "\n", `[stderr]\n${stderr}`]),
  ].join("");
  const ending = toEnding(exit);
  const full = ending === "" ? text : `${text}${text === "" || text.endsWith("\n") ? "" : "\n"}[${ending}]`;
  const { cwd, dropped } = job.about;
  return toResult(full, {
    ...(exit.exitCode === undefined ? {} : { exitCode: exit.exitCode }),
    ...(exit.signal === undefined ? {} : { signal: exit.signal }),
    timedOut: exit.timedOut,
    durationMs: exit.durationMs,
    cwd,
    stdoutBytes: exit.stdoutBytes,
    stderrBytes: exit.stderrBytes,
    stdoutTruncated: kept.stdout.truncated,
    stderrTruncated: kept.stderr.truncated,
    ...(exit.unended.length === 0 ? {} : { unended: [...exit.unended] }),
    ...(dropped.length === 0 ? {} : { droppedVariables: [...dropped] }),
  });
}

function toEnding(exit: JobExit): string {
  const left = exit.unended.length === 0 ? "" : `; could not end the processes ${exit.unended.join(", ")}`;
  if (exit.timedOut) return `ended after ${exit.durationMs} ms: the time was over${left}`;
  if (exit.signal !== undefined) return `ended by ${exit.signal}${left}`;
  return exit.exitCode === 0 ? left.slice(2) : `exit status ${exit.exitCode ?? "unknown"}${left}`;
}

function toText(kept: KeptOutput): string {
  const head = kept.head.toString("utf8");
  if (!kept.truncated) return head;
  const missing = kept.totalBytes - kept.head.byteLength - kept.tail.byteLength;
  return `${head}\n[… ${missing} of ${kept.totalBytes} bytes left out …]\n${kept.tail.toString("utf8")}`;
}
