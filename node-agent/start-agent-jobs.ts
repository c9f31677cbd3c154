import path from "node:path";
import { faultFromError } from "../shared/fault/fault-from-error.ts";
import type { Scope } from "../shared/lifetime/scope.ts";
import type { AgentDeps } from "./agent.ts";
import { type Jobs, openJobs } from "./jobs/jobs.ts";
import { endWithWorkspace } from "./tools/job-answer.ts";
import type { Exports } from "./workspace/exports.ts";

/** What the agent's jobs stand on. */
export interface AgentJobsParts {
  /** The node's folder. */
  readonly dir: string;
  /** Jobs end with their workspaces. */
  readonly exports: Pick<Exports, "get">;
  readonly deps: Pick<AgentDeps, "clock" | "log" | "version">;
}

/** Opens the jobs, with those that ran on while no agent was there; `scope` leaves them. */
export async function startAgentJobs(scope: Scope, parts: AgentJobsParts): Promise<Jobs> {
  const { clock, log, version } = parts.deps;
  const jobs = await openJobs({
    dir: path.join(parts.dir, "jobs"),
    version,
    clock,
    onFault: (error, about) => {
      const { code, message } = faultFromError(error);
      log.warn(about, { code, reason: message });
    },
  });
  scope.use(jobs);
  for (const job of jobs.running()) {
    log.info("a job ran on", { pid: job.pid, workspace: job.about.workspace });
    try {
      endWithWorkspace(job, (await parts.exports.get(job.about.workspace)).signal);
    } catch (error) {
      // What was exported when it began is not any more.
      void job.end(faultFromError(error)).catch(() => undefined);
    }
  }
  return jobs;
}
