import { Fault } from "../../shared/fault/fault.ts";
import { raceSignal, type Clock } from "../../shared/lifetime/clock.ts";
import { outputLimits, type KeptOutput } from "../../shared/process/kept-output.ts";
import type { OutputStream } from "../../shared/process/run-command.ts";
import { toNote, type JobAbout, type JobExit } from "./job-record.ts";
import type { RunningJob } from "./messages.ts";
import { readKept, SpillReader, type SpillPart } from "./spill.ts";
import type { SupervisorLink } from "./supervisor-link.ts";

/** A piece of a job's output. */
export interface JobOutput {
  readonly stream: OutputStream;
  /** Where `data` stands in its stream. */
  readonly offset: number;
  readonly data: Uint8Array;
}

/** From where on output is wanted. */
export interface OutputPosition {
  readonly stdout: number;
  readonly stderr: number;
}

/** A job that runs, or whose record is kept. */
export interface Job {
  readonly id: string;
  readonly about: JobAbout;
  /** The process; 0 when it is not known. */
  readonly pid: number;
  /** Milliseconds since 1970; 0 when it is not known. */
  readonly startedAt: number;
  /** How it ended; undefined while it runs. */
  readonly exit: JobExit | undefined;
  /** Resolves when it has ended; never rejects. */
  readonly ended: Promise<JobExit>;
  /**
   * Its output from a position on, as it comes, then how it ended. The bytes that a slow reader has not taken are kept
   * while it reads; of what is gone the next offset is told by the next piece. Aborting leaves the job.
   */
  follow(from: OutputPosition, signal: AbortSignal): AsyncGenerator<JobOutput, JobExit>;
  /** Ends it and all that it started with that reason; resolves when it is gone. */
  end(fault: Fault): Promise<JobExit>;
  /** Beginning and end of its output; once it has ended. */
  kept(): Promise<Readonly<Record<OutputStream, KeptOutput>>>;
}

const streams = ["stdout", "stderr"] as const;
const pieceBytes = 64 * 1024;
/** A reader says how far it came after so many bytes. */
const takenStepBytes = 1024 * 1024;
/** What a supervisor says is only the sooner word: its files are looked at after so long in any case, in milliseconds. */
const lookAgainMs = 1_000;

/** What a job is known by. */
export interface JobParts extends RunningJob {
  readonly folder: string;
  readonly clock: Clock;
  /** Who runs it; undefined when it has ended. */
  readonly link?: SupervisorLink;
  readonly exit?: JobExit;
}

/** A job as its agent holds it. */
export class AgentJob implements Job {
  readonly #parts: JobParts;
  readonly #ended = Promise.withResolvers<JobExit>();
  readonly #waiting = new Set<() => void>();
  #pid: number;
  /** Bytes of output that are known to be there. */
  readonly #sizes: Record<OutputStream, number>;
  #exit: JobExit | undefined;
  #readerCount = 0;
  readonly #left = new AbortController();

  constructor(parts: JobParts) {
    this.#parts = parts;
    this.#pid = parts.pid;
    this.#sizes = { stdout: parts.stdoutBytes, stderr: parts.stderrBytes };
    if (parts.exit) this.settle(parts.exit);
  }

  get id(): string {
    return this.#parts.id;
  }

  get about(): JobAbout {
    return this.#parts.about;
  }

  get pid(): number {
    return this.#pid;
  }

  get startedAt(): number {
    return this.#parts.startedAt;
  }

  get folder(): string {
    return this.#parts.folder;
  }

  /** Who runs it. */
  get link(): SupervisorLink | undefined {
    return this.#parts.link;
  }

  get exit(): JobExit | undefined {
    return this.#exit;
  }

  get ended(): Promise<JobExit> {
    return this.#ended.promise;
  }

  /** It runs as this process. */
  started(pid: number): void {
    this.#pid = pid;
  }

  /** It has ended; only the first word counts. */
  settle(exit: JobExit): void {
    this.#exit ??= exit;
    this.#ended.resolve(this.#exit);
    this.grew("stdout", this.#exit.stdoutBytes);
    this.grew("stderr", this.#exit.stderrBytes);
  }

  /** The agent leaves it: followers fail, and the job goes on. */
  leave(): void {
    this.#left.abort(
      new Fault("NODE_OFFLINE", "the node's agent is stopping", { details: { reason: "agent_stops" } }),
    );
  }

  /** There is more output. */
  grew(stream: OutputStream, sizeBytes: number): void {
    this.#sizes[stream] = Math.max(this.#sizes[stream], sizeBytes);
    for (const wake of this.#waiting) wake();
    this.#waiting.clear();
  }

  async *follow(from: OutputPosition, reads: AbortSignal): AsyncGenerator<JobOutput, JobExit> {
    const signal = AbortSignal.any([reads, this.#left.signal]);
    const reader = new Reader(this.#parts, (this.#readerCount += 1));
    await using readers = new AsyncDisposableStack();
    const spills = {
      stdout: readers.use(new SpillReader(this.folder, "stdout")),
      stderr: readers.use(new SpillReader(this.folder, "stderr")),
    };
    const at = { stdout: from.stdout, stderr: from.stderr };
    // What is known to be there is read; now and then it is looked whether there is more.
    let isSure = false;
    try {
      reader.take(at);
      for (;;) {
        // Before the look at the files: what ends or grows meanwhile is seen by the next one.
        const changed = this.#changed();
        const { exit } = this;
        let hasMoved = false;
        for (const stream of streams) {
          signal.throwIfAborted();
          if (at[stream] >= this.#sizes[stream] && !isSure) continue;
          const part: SpillPart = await spills[stream].read(at[stream], pieceBytes);
          if (!part) continue;
          hasMoved = true;
          if ("bytes" in part) yield { stream, offset: at[stream], data: part.bytes };
          at[stream] = "bytes" in part ? at[stream] + part.bytes.byteLength : part.skipTo;
          reader.take(at);
        }
        if (hasMoved) continue;
        if (exit) return exit;
        isSure = await this.#untilChanged(changed, signal);
      }
    } finally {
      reader.leave();
    }
  }

  #changed(): Promise<void> {
    return new Promise((resolve) => void this.#waiting.add(resolve));
  }

  /** Says whether nothing was heard for so long that it is time to look. */
  async #untilChanged(changed: Promise<void>, signal: AbortSignal): Promise<boolean> {
    const over = new AbortController();
    const look = this.#parts.clock.sleep(lookAgainMs, { signal: over.signal }).then(
      () => true,
      () => false,
    );
    try {
      return await raceSignal(Promise.race([changed.then(() => false), look]), signal);
    } finally {
      over.abort();
    }
  }

  async end(fault: Fault): Promise<JobExit> {
    if (!this.#exit) this.link?.send({ kind: "end", id: this.id, fault: toNote(fault) });
    return await this.ended;
  }

  async kept(): Promise<Readonly<Record<OutputStream, KeptOutput>>> {
    const { stdoutBytes, stderrBytes } = await this.ended;
    const [stdout, stderr] = await Promise.all([
      readKept(this.folder, "stdout", { totalBytes: stdoutBytes, limits: outputLimits }),
      readKept(this.folder, "stderr", { totalBytes: stderrBytes, limits: outputLimits }),
    ]);
    return { stdout, stderr };
  }
}

/** Tells the supervisor how far one reader came. */
class Reader {
  readonly #parts: JobParts;
  readonly #number: number;
  #told: OutputPosition | undefined;

  constructor(parts: JobParts, number: number) {
    this.#parts = parts;
    this.#number = number;
  }

  take({ stdout, stderr }: OutputPosition): void {
    const moved = this.#told ? stdout - this.#told.stdout + stderr - this.#told.stderr : takenStepBytes;
    if (moved < takenStepBytes) return;
    this.#told = { stdout, stderr };
    this.#parts.link?.send({ kind: "taken", id: this.#parts.id, reader: this.#number, stdout, stderr });
  }

  leave(): void {
    this.#parts.link?.send({ kind: "left", id: this.#parts.id, reader: this.#number });
  }
}
