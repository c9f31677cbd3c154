import type { Fault } from "../../shared/fault/fault.ts";
import { raceSignal, startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import { toNote } from "./job-record.ts";
import type { RunningJob } from "./messages.ts";
import { connectSupervisor, findSupervisors, type SupervisorLink } from "./supervisor-link.ts";

/** The jobs that run on this machine, asked of those who run them: for a command beside the agent, or without one. */
export interface RunningJobs extends Disposable {
  /** The oldest first. */
  readonly jobs: readonly RunningJob[];
  /** Ends a job and everything it started; resolves when it is gone. */
  end(job: RunningJob, fault: Fault): Promise<void>;
}

/** How long the end of a job is waited for, in milliseconds: its own grace, and what proves it. */
const endMs = 15_000;

/** Asks every supervisor of a folder of jobs. The caller disposes it, which ends nothing. */
export async function openRunningJobs(dir: string, clock: Clock): Promise<RunningJobs> {
  const links: SupervisorLink[] = [];
  for (const found of await findSupervisors(dir)) {
    const link = await connectSupervisor(found, { jobsDir: dir, clock });
    if (link) links.push(link);
  }
  const ending = new Map<string, () => void>();
  for (const link of links) {
    link.hear((message) => {
      if (message.kind === "ended") ending.get(message.id)?.();
    });
  }
  const linkOf = new Map(links.flatMap((link) => link.running.map((job) => [job, link] as const)));
  return {
    jobs: [...linkOf.keys()].toSorted((a, b) => a.startedAt - b.startedAt),
    end: async (job, fault) => {
      const link = linkOf.get(job);
      if (!link) return;
      const ended = Promise.withResolvers<void>();
      ending.set(job.id, ended.resolve);
      link.send({ kind: "end", id: job.id, fault: toNote(fault) });
      using deadline = startDeadline({ timeoutMs: endMs, clock });
      await raceSignal(Promise.race([ended.promise, link.closed]), deadline.signal);
    },
    [Symbol.dispose]: () => {
      for (const link of links) link.leave();
    },
  };
}
