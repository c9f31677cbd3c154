import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Scope } from "../../shared/lifetime/scope.ts";
import { isProcessAlive } from "../../shared/process/process-mark.ts";
import { keepOutcomeMs } from "../../shared/rpc/limits.ts";
import { readExit, readRecord, type JobExit } from "./job-record.ts";
import type { AgentJob } from "./job.ts";
import { endLostJob } from "./lost-job.ts";
import { removeSpill } from "./spill.ts";

/** What is kept of jobs that have ended. */
const recordLimits = {
  /** A record, in milliseconds after the end of its job. */
  keptMs: keepOutcomeMs,
  records: 10_000,
  /** Output of them all; the oldest goes first, and how the job ended stays. */
  outputBytes: 256 * 1024 * 1024,
};

const sweepMs = 30_000;

/** What the keeper of records stands on. */
export interface RecordKeeperOptions {
  readonly dir: string;
  readonly clock: Clock;
  readonly isRunning: (id: string) => boolean;
  readonly onFault: (error: unknown) => void;
}

/** Keeps the records of jobs for their time, and then removes them. */
export interface RecordKeeper {
  /** Takes a job that has ended. */
  ended(job: AgentJob, exit: JobExit): void;
  /** A job that ended in this process's time. */
  find(id: string): AgentJob | undefined;
  /** Looks through what an earlier process left: ended jobs are kept for their time, lost ones are ended. */
  look(): void;
}

interface Kept {
  readonly endedAt: number;
  readonly bytes: number;
  /** Of a job that ended in this process's time. */
  readonly id?: string;
}

/** Starts the keeper; `scope` ends it. */
export function startRecordKeeper(scope: Scope, options: RecordKeeperOptions): RecordKeeper {
  const keeper = new FolderKeeper(options);
  scope.spawn("records", async (signal) => {
    for (;;) {
      try {
        await options.clock.sleep(sweepMs, { signal });
      } catch {
        return;
      }
      await keeper.sweep().catch(options.onFault);
    }
  });
  return {
    ended: (job, exit) => keeper.ended(job, exit),
    find: (id) => keeper.find(id),
    look: () => scope.spawn("earlier jobs", (signal) => keeper.look(signal)),
  };
}

class FolderKeeper {
  readonly #options: RecordKeeperOptions;
  /** By folder, in the order of their ends. */
  readonly #kept = new Map<string, Kept>();
  readonly #jobs = new Map<string, AgentJob>();
  #bytes = 0;

  constructor(options: RecordKeeperOptions) {
    this.#options = options;
  }

  ended(job: AgentJob, exit: JobExit): void {
    this.#jobs.set(job.id, job);
    const bytes = exit.stdoutBytes + exit.stderrBytes;
    this.#keep(job.folder, { endedAt: exit.endedAt, bytes, id: job.id });
    if (this.#bytes > recordLimits.outputBytes || this.#kept.size > recordLimits.records)
      void this.sweep().catch(this.#options.onFault);
  }

  #keep(folder: string, kept: Kept): void {
    this.#bytes += kept.bytes - (this.#kept.get(folder)?.bytes ?? 0);
    this.#kept.set(folder, kept);
  }

  find(id: string): AgentJob | undefined {
    return this.#jobs.get(id);
  }

  async look(signal: AbortSignal): Promise<void> {
    const { dir, clock, isRunning, onFault } = this.#options;
    for (const name of await readdir(dir)) {
      if (signal.aborted) return;
      const folder = join(dir, name);
      if (!/^[0-9a-f]{32}$/.test(name) || this.#kept.has(folder)) continue;
      try {
        const exit = await readExit(folder);
        const record = await readRecord(folder);
        if (exit) this.#keep(folder, { endedAt: exit.endedAt, bytes: exit.stdoutBytes + exit.stderrBytes });
        else if (!record) await this.#removeOld(folder);
        else if (!isRunning(record.id) && !isProcessAlive(record.supervisor)) {
          const lost = await endLostJob(folder, record.id, clock);
          this.#keep(folder, { endedAt: lost.endedAt, bytes: lost.stdoutBytes + lost.stderrBytes });
        }
      } catch (error) {
        onFault(error);
      }
    }
  }

  /** A folder without a record is one that is being made, or whose making broke off. */
  async #removeOld(folder: string): Promise<void> {
    const { mtimeMs } = await stat(folder);
    if (mtimeMs < Date.now() - recordLimits.keptMs) await rm(folder, { recursive: true, force: true });
  }

  async sweep(): Promise<void> {
    const before = this.#options.clock.now() - recordLimits.keptMs;
    for (const [folder, { endedAt, id }] of this.#kept) {
      if (endedAt >= before && this.#kept.size <= recordLimits.records) continue;
      this.#keep(folder, { endedAt, bytes: 0 });
      this.#kept.delete(folder);
      if (id !== undefined) this.#jobs.delete(id);
      await rm(folder, { recursive: true, force: true });
    }
    for (const [folder, kept] of this.#kept) {
      if (this.#bytes <= recordLimits.outputBytes) return;
      if (kept.bytes === 0) continue;
      this.#keep(folder, { ...kept, bytes: 0 });
      await removeSpill(folder);
    }
  }
}
