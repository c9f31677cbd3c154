import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import { scrubEnvironment, type Environment } from "../../shared/process/environment.ts";
import type { Command } from "../../shared/process/run-command.ts";
import { maxDeadlineMs } from "../../shared/rpc/deadline.ts";
import type { Job } from "../jobs/job.ts";
import type { Jobs } from "../jobs/jobs.ts";
import { admitCommand, type ExecSettings } from "./exec-rules.ts";
import { answerOfJob, endWithWorkspace } from "./job-answer.ts";
import { findNumber, findText, type RunTool, type ToolRun } from "./tool-run.ts";

/** A folder of a workspace that a command runs in; held open until it is disposed. */
export interface CommandFolder extends AsyncDisposable {
  /** What the program is started in. */
  readonly cwd: string;
  /** What is said of it: `/WORKSPACE/path`, every link resolved. */
  readonly shown: string;
  /** Aborts when the export ends, and every command in it with it. */
  readonly signal: AbortSignal;
}

/** Opens the folder that a command is to run in; faults as any operation on files. */
export type OpenCommandFolder = (workspace: string, path: string) => Promise<CommandFolder>;

/** What `exec` stands on. */
export interface ExecParts {
  /** Read at each call, so that a changed configuration holds at once. */
  readonly settings: () => ExecSettings;
  /** Where commands are looked for; that of this program when the configuration has none. */
  readonly path?: () => string | undefined;
  /** This program's own environment. */
  readonly environment: Environment;
  readonly openFolder: OpenCommandFolder;
  /** Where commands run, and are found again. */
  readonly jobs: Pick<Jobs, "start" | "find" | "prepare">;
}

/** The longest time of a job, in milliseconds: that of the longest call. */
const longestJobMs = maxDeadlineMs;

/** The supervisor holds the deadline of a call too, a little later: the agent knows better what it ended for. */
const supervisorGraceMs = 2_000;

/** What a person needs to see of a command. */
const shownCommandLength = 500;

/** `exec`: a command as a job, its output while it runs, and how it ended. Its caller leaving on purpose ends it. */
export function createExec(parts: ExecParts): RunTool {
  return async function* exec(run) {
    const job = await startJob(run, parts);
    yield* answerOfJob(job, { from: { stdout: 0, stderr: 0 }, signal: run.context.signal, owns: true });
  };
}

async function startJob(run: ToolRun, parts: ExecParts): Promise<Job> {
  const asked = toCommand(run.arguments);
  const command = admitCommand(asked, parts.settings(), run.approvalId);
  await using folder = await parts.openFolder(run.workspace, findText(run.arguments, "cwd") ?? "");
  // Opening waited: the machine may have changed its mind meanwhile.
  admitCommand(asked, parts.settings(), run.approvalId);
  const environment = scrubEnvironment({
    own: parts.environment,
    path: parts.path?.(),
    asked: (run.arguments["env"] ?? {}) as Environment,
    fixed: { PWD: undefined },
  });
  const { callId, remainingMs } = run.context;
  const stdin = findText(run.arguments, "stdin");
  const job = await parts.jobs.start({
    id: callId,
    about: {
      workspace: run.workspace,
      sessionId: run.sessionId,
      agent: run.agent,
      command: ("shell" in command ? command.shell : command.argv.join(" ")).slice(0, shownCommandLength),
      cwd: folder.shown,
      dropped: environment.dropped,
    },
    command,
    cwd: folder.cwd,
    env: environment.variables,
    stdin: stdin === undefined ? undefined : Buffer.from(stdin).toString("base64"),
    timeoutMs: findNumber(run.arguments, "timeoutMs"),
    deadlineMs: Math.min(remainingMs, longestJobMs) + supervisorGraceMs,
  });
  endWithWorkspace(job, folder.signal);
  return job;
}

/** The command that the arguments ask for; `INVALID_ARGUMENT` when they name no program. */
export function toCommand(given: JsonObject): Command {
  const { command } = given;
  if (typeof command === "string") return { shell: command };
  const [program, ...rest] = Array.isArray(command) ? command.map(String) : [];
  if (program === undefined || program === "") {
    throw new Fault("INVALID_ARGUMENT", "the command has no program", { details: { field: "command" } });
  }
  const argv: readonly [string, ...string[]] = [program, ...rest];
  if (argv.some((word) => word.includes("\0"))) {
    throw new Fault("INVALID_ARGUMENT", "a word of the command holds NUL", { details: { field: "command" } });
  }
  return { argv };
}
