import path from "node:path";
import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import { safeText } from "../../shared/log/safe-text.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime } from "../../shared/terminal/json.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import type { RunningJob } from "../jobs/messages.ts";
import { openRunningJobs, type RunningJobs } from "../jobs/running-jobs.ts";

/** The `node jobs` commands: what runs on this machine for whom, and its end, decided here; also while the agent is stopped. */
export const jobsCommands: readonly CommandModule[] = [
  {
    words: "node jobs ls",
    summary: "the commands that run on this machine, and for whom",
    example: "fairlead node jobs ls",
    run: async (_, runtime) => {
      using running = await openJobsHere(runtime);
      const { jobs } = running;
      await runtime.output.result({ jobs: jobs.map(jobToJson) }, () => ({
        columns: ["ID", "SINCE", "AGENT", "SESSION", "FOLDER", "COMMAND"],
        rows: jobs.map(({ id, about, startedAt }) => [
          id,
          toTime(startedAt) ?? "",
          about.agent,
          about.sessionId,
          about.cwd,
          safeText(about.command),
        ]),
        empty: "no command runs",
      }));
    },
  },
  {
    words: "node jobs stop",
    summary: "end a command of this machine with everything it started",
    example: "fairlead node jobs stop 7c9e6679-7425-40de-944b-e07fc1f90ae7",
    args: [{ name: "<id>", text: "the job, or a prefix of its id that fits one only" }],
    run: async (input, runtime) => {
      using running = await openJobsHere(runtime);
      const job = pick(running.jobs, input.argument("id"));
      await running.end(
        job,
        new Fault("CANCELLED", "the command was ended on its machine", {
          details: { reason: "ended_on_node", callId: job.id },
        }),
      );
      await runtime.output.result({ ...jobToJson(job), ended: true }, () => [`${job.id} was ended`]);
    },
  },
];

/** The jobs that run in this home. */
export async function openJobsHere(runtime: Pick<Runtime, "home" | "clock">): Promise<RunningJobs> {
  return await openRunningJobs(path.join(runtime.home.nodeDir, "jobs"), runtime.clock);
}

/** A running job as `--json` shows it. */
export function jobToJson({ id, pid, about, startedAt }: RunningJob): { readonly [key: string]: JsonValue } {
  return {
    id,
    pid,
    since: toTime(startedAt),
    agent: about.agent,
    session: about.sessionId === "" ? null : about.sessionId,
    workspace: about.workspace,
    cwd: about.cwd,
    command: about.command,
  };
}

/** The running jobs as `node status` shows them to people. */
export function jobsToLines(jobs: readonly RunningJob[]): readonly string[] {
  return jobs.map(({ id, about }) => {
    const session = about.sessionId === "" ? about.agent : `${about.agent}, session ${about.sessionId}`;
    return `running: ${id} (${session}): ${safeText(about.command)}`;
  });
}

function pick(jobs: readonly RunningJob[], id: string): RunningJob {
  const fitting = jobs.filter((job) => job.id.startsWith(id));
  const [only, ...more] = fitting;
  if (only && more.length === 0) return only;
  const hint = "fairlead node jobs ls";
  if (!only) throw new Fault("NOT_FOUND", `no command with the id ${id} runs here`, { hint });
  throw new Fault("INVALID_ARGUMENT", `${id} fits ${fitting.length} commands`, {
    hint,
    details: { field: "id", expected: fitting.map((job) => job.id) },
  });
}
