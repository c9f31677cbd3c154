import type { JsonObject } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import { createQueue, type Queue } from "../../shared/flow/queue.ts";
import { scrubEnvironment, type Environment } from "../../shared/process/environment.ts";
import type { KeptOutput } from "../../shared/process/kept-output.ts";
import { runCommand, type Command, type CommandResult } from "../../shared/process/run-command.ts";
import { admitCommand, type ExecSettings } from "./exec-rules.ts";
import { findNumber, findText, toResult, type RunTool, type ToolPart, type ToolRun } from "./tool-run.ts";

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
}

/** Messages of output that wait for the link, at most 64 KiB each. */
const outputQueue = 8;

/** `exec`: a command, its output while it runs, and how it ended. */
export function createExec(parts: ExecParts): RunTool {
  return async function* exec(run) {
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
    const started = { command, cwd: folder.cwd, env: environment.variables, signal: folder.signal };
    const result = yield* stream(run, started);
    yield toAnswer(result, { cwd: folder.shown, dropped: environment.dropped });
  };
}

interface Started {
  readonly command: Command;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly signal: AbortSignal;
}

/** Runs the command, gives its output as it comes, and returns how it ended; leaving early ends the command. */
async function* stream(run: ToolRun, started: Started): AsyncGenerator<ToolPart, CommandResult> {
  const queue = createQueue<ToolPart>(outputQueue);
  const left = new AbortController();
  const stdin = findText(run.arguments, "stdin");
  const timeoutMs = findNumber(run.arguments, "timeoutMs");
  const running = runCommand(started.command, {
    cwd: started.cwd,
    env: started.env,
    signal: AbortSignal.any([run.context.signal, started.signal, left.signal]),
    ...(stdin === undefined ? {} : { stdin }),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    onOutput: (name, chunk) =>
      queue.push({ part: { case: "output", value: { stream: name, data: Uint8Array.from(chunk) } } }),
  });
  void closeAfter(queue, running);
  try {
    yield* queue;
    return await running;
  } finally {
    left.abort(new Fault("CANCELLED", "the caller has left"));
    await running.catch(() => undefined);
  }
}

async function closeAfter(queue: Queue<ToolPart>, running: Promise<unknown>): Promise<void> {
  await running.then(
    () => queue.close(),
    (error: unknown) => queue.close(error),
  );
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

function toAnswer(
  result: CommandResult,
  where: { readonly cwd: string; readonly dropped: readonly string[] },
): ToolPart {
  const stdout = toText(result.stdout);
  const stderr = toText(result.stderr);
  const text = [
    stdout,
    ...(stderr === "" ? [] : [stdout === "" || stdout.endsWith("\n") ? "" : "\n", `[stderr]\n${stderr}`]),
  ].join("");
  const ending = toEnding(result);
  const full = ending === "" ? text : `${text}${text === "" || text.endsWith("\n") ? "" : "\n"}[${ending}]`;
  return toResult(full, {
    ...(result.exitCode === undefined ? {} : { exitCode: result.exitCode }),
    ...(result.signal === undefined ? {} : { signal: result.signal }),
    timedOut: result.timedOut,
    durationMs: result.durationMs,
    cwd: where.cwd,
    stdoutBytes: result.stdout.totalBytes,
    stderrBytes: result.stderr.totalBytes,
    stdoutTruncated: result.stdout.truncated,
    stderrTruncated: result.stderr.truncated,
    ...(result.unended.length === 0 ? {} : { unended: [...result.unended] }),
    ...(where.dropped.length === 0 ? {} : { droppedVariables: [...where.dropped] }),
  });
}

function toEnding(result: CommandResult): string {
  const left =
    result.unended.length === 0 ? "" : `; could not end the processes ${result.unended.join(", ")}`;
  if (result.timedOut) return `ended after ${result.durationMs} ms: the time was over${left}`;
  if (result.signal !== undefined) return `ended by ${result.signal}${left}`;
  return result.exitCode === 0 ? left.slice(2) : `exit status ${result.exitCode ?? "unknown"}${left}`;
}

function toText(kept: KeptOutput): string {
  const head = kept.head.toString("utf8");
  if (!kept.truncated) return head;
  const missing = kept.totalBytes - kept.head.byteLength - kept.tail.byteLength;
  return `${head}\n[… ${missing} of ${kept.totalBytes} bytes left out …]\n${kept.tail.toString("utf8")}`;
}
