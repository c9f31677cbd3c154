import { chmod, mkdir, rm, writeFile } from "node:fs/promises";
import { createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { ownProcessMark, type ProcessMark } from "../../shared/process/process-mark.ts";
import { jobFolder, toNote, type FaultNote, type JobExit } from "./job-record.ts";
import {
  onMessages,
  sendMessage,
  supervisorProtocol,
  type FromSupervisor,
  type JobStart,
  type ToSupervisor,
} from "./messages.ts";
import { SupervisedJob } from "./supervised-job.ts";

/** What a supervisor stands on. */
export interface SupervisorOptions {
  /** The folder of all jobs. */
  readonly jobsDir: string;
  /** Its own name. */
  readonly name: string;
  /** Of the program that it belongs to. */
  readonly version: string;
  /** How long jobs go on without a link, in milliseconds. */
  readonly unlinkedMs: number;
  readonly clock: Clock;
  /** Hears what went wrong without anybody to tell. */
  readonly onFault: (error: unknown) => void;
}

/** What stands in a supervisor's file: who it is, for agents that come later. */
export interface SupervisorNote {
  readonly mark: ProcessMark;
  readonly protocol: number;
  readonly version: string;
}

/** Runs the jobs of a node, and outlives its agent. */
export interface Supervisor {
  /** Resolves when it has no jobs and no agent, or was stopped; never rejects. */
  readonly closed: Promise<void>;
  /** Ends every job, with that fault, and then itself. */
  stop(fault: Fault): void;
}

/** The folder of the supervisors' files. */
export function supervisorsFolder(jobsDir: string): string {
  return join(jobsDir, "supervisors");
}

/** Jobs at one time. */
export const maxRunningJobs = 256;

/** A supervisor that no agent comes to ends after so long, in milliseconds. */
const firstAgentMs = 10_000;

/** The longest path that a socket may have as its address; the platforms allow a few bytes more. */
export const maxAddressBytes = 100;

/** Starts to listen; its file names it from then on. With a long path the process must stand in `supervisorsFolder`. */
export async function startSupervisor(options: SupervisorOptions): Promise<Supervisor> {
  const supervisor = new JobSupervisor(options);
  await supervisor.listen();
  return supervisor;
}

interface Agent {
  readonly socket: Socket;
  readonly number: number;
  isLinked: boolean;
}

class JobSupervisor implements Supervisor {
  readonly #options: SupervisorOptions;
  readonly #jobs = new Map<string, SupervisedJob>();
  readonly #agents = new Set<Agent>();
  readonly #server: Server;
  readonly #closed = Promise.withResolvers<void>();
  #agentCount = 0;
  #isOver = false;
  /** Ends the wait for a link. */
  #linked = new AbortController();

  constructor(options: SupervisorOptions) {
    this.#options = options;
    this.#server = createServer((socket) => this.#greet(socket));
  }

  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  async listen(): Promise<void> {
    const { name, jobsDir, version } = this.#options;
    const folder = supervisorsFolder(jobsDir);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      const whole = join(folder, `${name}.sock`);
      // By its bare name where the whole path is longer than an address may be.
      this.#server.listen(Buffer.byteLength(whole) > maxAddressBytes ? `${name}.sock` : whole, resolve);
    });
    await chmod(join(folder, `${name}.sock`), 0o600);
    const note: SupervisorNote = { mark: ownProcessMark(), protocol: supervisorProtocol, version };
    await writeFile(join(folder, `${name}.json`), JSON.stringify(note), { mode: 0o600 });
    void this.#waitForLink();
    void this.#options.clock.sleep(firstAgentMs).then(() => this.#endWhenIdle());
  }

  #greet(socket: Socket): void {
    this.#agentCount += 1;
    const agent: Agent = { socket, number: this.#agentCount, isLinked: false };
    this.#agents.add(agent);
    socket.on("error", () => undefined);
    socket.once("close", () => this.#lose(agent));
    onMessages(socket, (message) => this.#obey(agent, message as ToSupervisor));
    const running = [...this.#jobs.values()].map(({ summary }) => summary).filter(({ pid }) => pid !== 0);
    sendMessage(socket, { kind: "hello", protocol: supervisorProtocol, running });
  }

  #obey(agent: Agent, message: ToSupervisor): void {
    switch (message.kind) {
      case "start":
        return void this.#start(agent, message.job);
      case "end":
        return this.#jobs.get(message.id)?.end(message.fault);
      case "link":
        agent.isLinked = message.isUp;
        return this.#linkChanged();
      case "taken":
        return this.#jobs.get(message.id)?.taken(`${agent.number}/${message.reader}`, message);
      case "left":
        return this.#jobs.get(message.id)?.left(`${agent.number}/${message.reader}`);
      case "leave":
        agent.socket.end();
        return;
    }
  }

  #tell(message: FromSupervisor): void {
    for (const { socket } of this.#agents) sendMessage(socket, message);
  }

  async #start({ socket }: Agent, start: JobStart): Promise<void> {
    const { id } = start;
    const refuse = (fault: FaultNote): void => sendMessage(socket, { kind: "refused", id, fault });
    if (this.#isOver || this.#jobs.has(id) || this.#jobs.size >= maxRunningJobs)
      return refuse(toNote(refusalFault(this.#jobs.size)));
    const { clock, jobsDir } = this.#options;
    const folder = jobFolder(jobsDir, id);
    const job = new SupervisedJob(start, {
      folder,
      clock,
      onStarted: (pid) => this.#tell({ kind: "started", id, pid }),
      onGrew: (stream, sizeBytes) => this.#tell({ kind: "grew", id, stream, sizeBytes }),
    });
    this.#jobs.set(id, job);
    let exit: JobExit | undefined;
    try {
      exit = await job.run();
    } catch (error) {
      // It never ran, or its end could not be written down: then its record stays without one.
      if (job.summary.pid === 0) {
        refuse(toNote(faultFromError(error)));
        await rm(folder, { recursive: true, force: true }).catch(() => undefined);
      } else this.#options.onFault(error);
      exit = job.exit;
    }
    this.#jobs.delete(id);
    if (exit) this.#tell({ kind: "ended", id, exit });
    this.#endWhenIdle();
  }

  #lose(agent: Agent): void {
    this.#agents.delete(agent);
    for (const job of this.#jobs.values()) job.left(`${agent.number}/`);
    this.#linkChanged();
    this.#endWhenIdle();
  }

  #linkChanged(): void {
    const isLinked = [...this.#agents].some((agent) => agent.isLinked);
    if (isLinked) this.#linked.abort();
    else if (this.#linked.signal.aborted) {
      this.#linked = new AbortController();
      void this.#waitForLink();
    }
  }

  /** Without a link for too long, whoever the jobs are for cannot want them any more. */
  async #waitForLink(): Promise<void> {
    const { signal } = this.#linked;
    const { clock, unlinkedMs } = this.#options;
    try {
      await clock.sleep(unlinkedMs, { signal });
    } catch {
      return;
    }
    for (const job of this.#jobs.values()) job.end(toNote(unlinkedFault(unlinkedMs)));
    // Those that begin without a link, as none can, would have their time too.
    this.#linked = new AbortController();
    if (!this.#isOver) void this.#waitForLink();
  }

  stop(fault: Fault): void {
    for (const job of this.#jobs.values()) job.end(toNote(fault));
    for (const { socket } of this.#agents) if (this.#jobs.size === 0) socket.end();
    this.#isOver = true;
    this.#endWhenIdle();
  }

  #endWhenIdle(): void {
    if (this.#jobs.size > 0 || (this.#agents.size > 0 && !this.#isOver)) return;
    this.#isOver = true;
    this.#linked.abort();
    void this.#close();
  }

  async #close(): Promise<void> {
    const { name, jobsDir } = this.#options;
    for (const { socket } of this.#agents) socket.end();
    this.#server.close();
    const folder = supervisorsFolder(jobsDir);
    await rm(join(folder, `${name}.json`), { force: true }).catch(() => undefined);
    await rm(join(folder, `${name}.sock`), { force: true }).catch(() => undefined);
    this.#closed.resolve();
  }
}

function refusalFault(jobCount: number): Fault {
  if (jobCount < maxRunningJobs)
    return new Fault("IO_ERROR", "the supervisor of jobs is ending", {
      retryable: true,
      hint: "repeat the call; it did not run",
    });
  return new Fault("LIMIT_REACHED", `${jobCount} commands run on the node already`, {
    hint: "wait for one of them, or end one: fairlead node jobs ls, on the node",
    details: { limit: maxRunningJobs, actual: jobCount, reason: "running_jobs" },
  });
}

function unlinkedFault(unlinkedMs: number): Fault {
  return new Fault("CANCELLED", `the job was without a gateway for ${unlinkedMs} ms`, {
    details: { reason: "unlinked", limit: unlinkedMs },
  });
}
