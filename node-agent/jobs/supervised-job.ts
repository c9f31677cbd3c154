import { randomUUID } from "node:crypto";
import { faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import { ownProcessMark, processMark } from "../../shared/process/process-mark.ts";
import { runCommand, type CommandResult, type OutputStream } from "../../shared/process/run-command.ts";
import { fromNote, toNote, writeExit, writeRecord, type FaultNote, type JobExit } from "./job-record.ts";
import type { JobStart, RunningJob } from "./messages.ts";
import { spillLimits, SpillWriter, type SpillLimits } from "./spill.ts";

/** What a supervised job is made of. */
export interface SupervisedJobOptions {
  /** Its folder. */
  readonly folder: string;
  readonly clock: Clock;
  readonly limits?: SpillLimits | undefined;
  /** It runs now. */
  readonly onStarted: (pid: number) => void;
  /** A stream has more. */
  readonly onGrew: (stream: OutputStream, sizeBytes: number) => void;
}

/** Where a reader stands. */
export interface ReaderPosition {
  readonly stdout: number;
  readonly stderr: number;
}

const nothingKept = { headBytes: 0, tailBytes: 0 } as const;

/** One command under supervision: its output on the disk, its time, and the proof of its end. */
export class SupervisedJob {
  readonly #start: JobStart;
  readonly #options: SupervisedJobOptions;
  readonly #ending = new AbortController();
  readonly #writers: Readonly<Record<OutputStream, SpillWriter>>;
  readonly #spilling: Partial<Record<OutputStream, Promise<void>>> = {};
  readonly #readers = new Map<string, ReaderPosition>();
  #onReadersMoved: (() => void)[] = [];
  #pid = 0;
  #exit: JobExit | undefined;
  readonly #startedAt: number;

  constructor(start: JobStart, options: SupervisedJobOptions) {
    this.#start = start;
    this.#options = options;
    this.#startedAt = options.clock.now();
    const { folder, limits = spillLimits } = options;
    this.#writers = {
      stdout: new SpillWriter(folder, "stdout", limits),
      stderr: new SpillWriter(folder, "stderr", limits),
    };
  }

  /** What it is, for an agent that has just come. */
  get summary(): RunningJob {
    const { id, about } = this.#start;
    return {
      id,
      about,
      pid: this.#pid,
      startedAt: this.#startedAt,
      stdoutBytes: this.#writers.stdout.totalBytes,
      stderrBytes: this.#writers.stderr.totalBytes,
    };
  }

  /** How it ended, also when that could not be written down. */
  get exit(): JobExit | undefined {
    return this.#exit;
  }

  /** Runs it to its end and gives how it ended, written down; throws when it could not be started. */
  async run(): Promise<JobExit> {
    const { clock, folder } = this.#options;
    const { id, about } = this.#start;
    const marker = `FAIRLEAD_COMMAND=${randomUUID()}`;
    const record = { id, about, marker, supervisor: ownProcessMark(), startedAt: this.#startedAt };
    writeRecord(folder, record);
    using deadline = startDeadline({
      timeoutMs: this.#start.deadlineMs,
      clock,
      signal: this.#ending.signal,
      fault: () => deadlineFault(this.#start),
    });
    let exit: JobExit;
    try {
      const result = await this.#runCommand(marker, deadline.signal, (pid) => {
        this.#pid = pid;
        this.#options.onStarted(pid);
        writeRecord(folder, { ...record, process: processMark(pid) });
      });
      exit = this.#toExit(result);
    } catch (error) {
      if (this.#pid === 0) throw error;
      exit = this.#toExit(undefined, toNote(faultFromError(error)));
    } finally {
      // A stream that was broken off may still be writing its last.
      await Promise.allSettled(Object.values(this.#spilling));
      await this.#writers.stdout.close();
      await this.#writers.stderr.close();
    }
    this.#exit = exit;
    await writeExit(folder, exit);
    return exit;
  }

  async #runCommand(
    marker: string,
    signal: AbortSignal,
    onStarted: (pid: number) => void,
  ): Promise<CommandResult> {
    const { command, cwd, env, stdin, timeoutMs } = this.#start;
    return await runCommand(command, {
      cwd,
      env,
      marker,
      signal,
      clock: this.#options.clock,
      keep: nothingKept,
      onStarted,
      ...(stdin === undefined ? {} : { stdin: Buffer.from(stdin, "base64") }),
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      onOutput: async (stream, chunk) => {
        const spilling = this.#spill(stream, chunk);
        this.#spilling[stream] = spilling;
        await spilling;
      },
    });
  }

  async #spill(stream: OutputStream, chunk: Uint8Array): Promise<void> {
    try {
      await this.#writers[stream].write(chunk, (offset) => this.#untilTaken(stream, offset));
    } catch (error) {
      // A job whose output can be kept nowhere is ended: its caller is to hear of it.
      throw faultFromErrno(error, "the output of the job");
    }
    this.#options.onGrew(stream, this.#writers[stream].totalBytes);
  }

  #toExit(result: CommandResult | undefined, fault?: FaultNote): JobExit {
    const now = this.#options.clock.now();
    return {
      ...(result?.exitCode === undefined ? {} : { exitCode: result.exitCode }),
      ...(result?.signal === undefined ? {} : { signal: result.signal }),
      timedOut: result?.timedOut ?? false,
      ...(fault ? { fault } : {}),
      durationMs: result?.durationMs ?? Math.round(now - this.#startedAt),
      endedAt: now,
      unended: result?.unended ?? [],
      stdoutBytes: this.#writers.stdout.totalBytes,
      stderrBytes: this.#writers.stderr.totalBytes,
    };
  }

  /** Ends it and everything that it started; only the first reason counts. */
  end(fault: FaultNote): void {
    this.#ending.abort(fromNote(fault));
    this.#wakeReaders();
  }

  /** A reader stands there: what lies behind is not dropped before it was taken. */
  taken(reader: string, position: ReaderPosition): void {
    this.#readers.set(reader, position);
    this.#wakeReaders();
  }

  /** Readers are gone, whose names begin so. */
  left(reader: string): void {
    for (const name of this.#readers.keys()) if (name.startsWith(reader)) this.#readers.delete(name);
    this.#wakeReaders();
  }

  #wakeReaders(): void {
    for (const wake of this.#onReadersMoved.splice(0)) wake();
  }

  async #untilTaken(stream: OutputStream, offset: number): Promise<void> {
    const isBehind = (): boolean => [...this.#readers.values()].some((one) => one[stream] < offset);
    while (isBehind() && !this.#ending.signal.aborted)
      await new Promise<void>((resolve) => void this.#onReadersMoved.push(resolve));
  }
}

function deadlineFault({ id, deadlineMs }: JobStart): Fault {
  return new Fault("DEADLINE_EXCEEDED", `the job did not end within ${deadlineMs} ms`, {
    details: { callId: id, stage: "running" },
  });
}
