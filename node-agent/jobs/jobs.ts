import { mkdir } from "node:fs/promises";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { raceSignal, startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import { fromNote, jobFolder, readExit, readRecord, type JobExit } from "./job-record.ts";
import { AgentJob, type Job } from "./job.ts";
import { endLostJob } from "./lost-job.ts";
import type { FromSupervisor, JobStart, RunningJob } from "./messages.ts";
import { startRecordKeeper, type RecordKeeper } from "./record-keeper.ts";
import {
  connectSupervisor,
  findSupervisors,
  launchSupervisor,
  type SupervisorLink,
} from "./supervisor-link.ts";
import { supervisorsFolder } from "./supervisor.ts";

/** What jobs stand on. */
export interface JobsOptions {
  /** The folder of all jobs; made when it is missing. */
  readonly dir: string;
  /** The program's version: a supervisor of another one only finishes what it has. */
  readonly version: string;
  readonly clock: Clock;
  /** How long jobs go on without a link, in milliseconds; 10 min by default. */
  readonly unlinkedMs?: number;
  /** Hears what went wrong without a caller. */
  readonly onFault?: (error: unknown, about: string) => void;
}

/**
 * The jobs of a machine. They run under a supervisor, a process of its own that is started by the first job and outlives
 * the agent. Disposing leaves the jobs that run, and waits for the end of a supervisor that has none.
 */
export interface Jobs extends AsyncDisposable {
  /** Starts a job whose id nobody has used; resolves once it runs. Faults as the start of a command does. */
  start(job: JobStart): Promise<Job>;
  /** Gets ready for a job that may soon be started. */
  prepare(): void;
  /** A job that runs, or that ended not long ago; undefined when its record is gone. */
  find(id: string): Promise<Job | undefined>;
  /** The jobs that run. */
  running(): readonly Job[];
  /** Ends every job with that reason, and proves it. */
  endAll(fault: Fault): Promise<void>;
  /** Says whether the link is up. */
  setLinked(isUp: boolean): void;
}

/** How long jobs go on without a link unless something else is said, in milliseconds of the machine's waking time. */
export const defaultUnlinkedMs: number = 10 * 60 * 1000;

/** How long the end of supervisors is waited for, in milliseconds. */
const leaveMs = 3_000;

/** Opens the jobs of a machine, and finds those that run from before. The caller disposes them. */
export async function openJobs(options: JobsOptions): Promise<Jobs> {
  await mkdir(supervisorsFolder(options.dir), { recursive: true, mode: 0o700 });
  const jobs = new JobTable(options);
  await jobs.findRunning();
  return jobs;
}

class JobTable implements Jobs {
  readonly #options: JobsOptions;
  readonly #scope = new Scope("the jobs");
  readonly #jobs = new Map<string, AgentJob>();
  readonly #starting = new Map<string, PromiseWithResolvers<void>>();
  readonly #links = new Set<SupervisorLink>();
  readonly #records: RecordKeeper;
  #current: Promise<SupervisorLink> | undefined;
  #isLinked = false;

  constructor(options: JobsOptions) {
    this.#options = options;
    this.#records = startRecordKeeper(this.#scope, {
      dir: options.dir,
      clock: options.clock,
      isRunning: (id) => this.#jobs.has(id),
      onFault: (error) => options.onFault?.(error, "jobs"),
    });
  }

  /** Speaks with every supervisor there is. */
  async findRunning(): Promise<void> {
    const { dir, clock, version } = this.#options;
    for (const found of await findSupervisors(dir)) {
      const link = await connectSupervisor(found, { jobsDir: dir, clock });
      if (!link) continue;
      this.#adopt(link);
      if (found.note.version === version) this.#current = Promise.resolve(link);
      else void this.#leaveWhenDone(link);
    }
    this.#records.look();
  }

  #adopt(link: SupervisorLink): void {
    this.#links.add(link);
    link.send({ kind: "link", isUp: this.#isLinked });
    for (const running of link.running) this.#hold({ ...running, link });
    link.hear((message) => this.#hear(message));
    void link.closed.then(() => this.#lost(link));
  }

  #hold(parts: RunningJob & { readonly link: SupervisorLink }): AgentJob {
    const { dir, clock } = this.#options;
    const job = new AgentJob({ ...parts, folder: jobFolder(dir, parts.id), clock });
    this.#jobs.set(job.id, job);
    return job;
  }

  #hear(message: FromSupervisor): void {
    switch (message.kind) {
      case "started":
        this.#jobs.get(message.id)?.started(message.pid);
        return this.#starting.get(message.id)?.resolve();
      case "refused":
        return this.#starting.get(message.id)?.reject(fromNote(message.fault));
      case "grew":
        return this.#jobs.get(message.id)?.grew(message.stream, message.sizeBytes);
      case "ended":
        return this.#settle(message.id, message.exit);
      case "hello":
        return;
    }
  }

  #settle(id: string, exit: JobExit): void {
    const job = this.#jobs.get(id);
    if (!job) return;
    this.#jobs.delete(id);
    this.#records.ended(job, exit);
    job.settle(exit);
    void this.#leaveWhenDone(job.link);
  }

  /** A supervisor that takes no new jobs has done its work with the last of its own. */
  async #leaveWhenDone(link: SupervisorLink | undefined): Promise<void> {
    const isCurrent = link === (await this.#current?.catch(() => undefined));
    if (!link || isCurrent || this.running().some((job) => job.link === link)) return;
    link.leave();
  }

  /** A supervisor speaks no more. What it ran is ended here, unless it wrote down how it ended. */
  async #lost(link: SupervisorLink): Promise<void> {
    this.#links.delete(link);
    if ((await this.#current?.catch(() => undefined)) === link) this.#current = undefined;
    const its = [...this.#jobs.values()].filter((job) => job.link === link);
    if (this.#scope.signal.aborted) return;
    for (const job of its) {
      this.#starting.get(job.id)?.reject(lostFault(job.id));
      try {
        this.#settle(job.id, await endLostJob(job.folder, job.id, this.#options.clock));
      } catch (error) {
        this.#options.onFault?.(error, "jobs");
      }
    }
  }

  async start(start: JobStart): Promise<Job> {
    const link = await this.#supervisor();
    const { clock } = this.#options;
    const starting = Promise.withResolvers<void>();
    const { id, about } = start;
    const fresh = { id, about, pid: 0, startedAt: clock.now(), stdoutBytes: 0, stderrBytes: 0 };
    const job = this.#hold({ ...fresh, link });
    this.#starting.set(start.id, starting);
    link.send({ kind: "start", job: start });
    try {
      await starting.promise;
      return job;
    } catch (error) {
      this.#jobs.delete(start.id);
      throw error;
    } finally {
      this.#starting.delete(start.id);
    }
  }

  /** The supervisor that takes new jobs. */
  async #supervisor(): Promise<SupervisorLink> {
    this.#scope.signal.throwIfAborted();
    this.#current ??= this.#launch();
    return await this.#current;
  }

  async #launch(): Promise<SupervisorLink> {
    const { dir, version, clock, unlinkedMs = defaultUnlinkedMs } = this.#options;
    try {
      const link = await launchSupervisor({ jobsDir: dir, version, unlinkedMs, clock });
      this.#adopt(link);
      return link;
    } catch (error) {
      this.#current = undefined;
      throw error;
    }
  }

  prepare(): void {
    // Who then starts a job hears of what went wrong.
    this.#supervisor().catch(() => undefined);
  }

  async find(id: string): Promise<Job | undefined> {
    const running = this.#jobs.get(id);
    if (running) return running;
    const { dir, clock } = this.#options;
    const kept = this.#records.find(id);
    if (kept) return kept;
    const folder = jobFolder(dir, id);
    const [record, exit] = [await readRecord(folder), await readExit(folder)];
    if (!record || record.id !== id || !exit) return this.#jobs.get(id);
    const { about, startedAt, process } = record;
    const { stdoutBytes, stderrBytes } = exit;
    const known = { id, about, startedAt, pid: process?.pid ?? 0, stdoutBytes, stderrBytes };
    return new AgentJob({ ...known, folder, clock, exit });
  }

  running(): readonly AgentJob[] {
    return [...this.#jobs.values()];
  }

  async endAll(fault: Fault): Promise<void> {
    await Promise.all(this.running().map((job) => job.end(fault)));
  }

  setLinked(isUp: boolean): void {
    if (this.#isLinked === isUp) return;
    this.#isLinked = isUp;
    for (const link of this.#links) link.send({ kind: "link", isUp });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // One that is being started is waited for: it would be left without anybody who knows it.
    await this.#current?.catch(() => undefined);
    await this.#scope.end();
    for (const job of this.#jobs.values()) job.leave();
    const links = [...this.#links];
    for (const link of links) link.leave();
    using deadline = startDeadline({ timeoutMs: leaveMs, clock: this.#options.clock });
    await raceSignal(Promise.all(links.map(({ closed }) => closed)), deadline.signal).catch(() => undefined);
    const left = new Set(links.map(({ name }) => name));
    await this.#untilGone(left, deadline.signal).catch((error: unknown) => {
      this.#options.onFault?.(faultFromError(error), "jobs");
    });
  }

  /**
   * A supervisor without jobs ends when its last agent leaves; its files go first. One that this agent never spoke with is
   * not waited for: in the copy of a home its file names that of another home.
   */
  async #untilGone(left: ReadonlySet<string>, signal: AbortSignal): Promise<void> {
    if (this.#jobs.size > 0) return;
    while ((await findSupervisors(this.#options.dir)).some(({ name }) => left.has(name)))
      await this.#options.clock.sleep(10, { signal });
  }
}

function lostFault(id: string): Fault {
  return new Fault("OUTCOME_UNKNOWN", "the supervisor of the job ended", {
    details: { callId: id, stage: "running", reason: "supervisor_ended" },
  });
}
