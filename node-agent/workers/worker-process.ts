import { type ChildProcess, spawn } from "node:child_process";
import { Fault } from "../../shared/fault/fault.ts";
import { type Clock, startDeadline } from "../../shared/lifetime/clock.ts";
import type { Log } from "../../shared/log/log.ts";
import { openStdioClient, type StdioClient } from "../../shared/rpc/stdio.ts";
import { resolveWorkspaceWorkerArgv, type WorkerKind, workerFlags } from "./worker-argv.ts";

/** What a worker inherits of the agent's environment: nothing else. */
export interface WorkerEnvironment {
  readonly HOME: string;
  readonly PATH: string;
}

/** What `startWorkerProcess` takes. */
export interface WorkerProcessOptions {
  readonly kind: WorkerKind;
  /** Sent as the first line, as JSON. */
  readonly settings: unknown;
  /** The folders that it reads. */
  readonly dirs: readonly string[];
  readonly environment: WorkerEnvironment;
  readonly clock: Clock;
  readonly log: Log;
}

/** One run of a worker. Disposing it ends the process and waits until it is gone. */
export interface WorkerProcess extends AsyncDisposable {
  readonly pid: number;
  readonly stdio: StdioClient;
  /** Resolves with how it ended, once it is gone; never rejects. */
  readonly exited: Promise<string>;
}

const graceMs = 2000;
const maxLogLine = 2000;

/** Starts a worker in a session of its own, so that a Ctrl-C meant for the agent does not end it first. */
export function startWorkerProcess(options: WorkerProcessOptions): WorkerProcess {
  const [interpreter, entry] = resolveWorkspaceWorkerArgv(options.kind);
  const child = spawn(interpreter, [...workerFlags(options.dirs), entry, "--serve"], {
    cwd: "/",
    env: { ...options.environment },
    stdio: ["pipe", "pipe", "pipe"],
    detached: true,
  });
  const exited = exitOf(child);
  child.stdin.on("error", () => undefined);
  child.stdin.write(`${JSON.stringify(options.settings)}\n`);
  logLines(child, options.log);
  const stdio = openStdioClient({
    input: child.stdout,
    output: child.stdin,
    clock: options.clock,
    gone: workerGone,
  });
  return {
    pid: child.pid ?? 0,
    stdio,
    exited,
    [Symbol.asyncDispose]: async () => {
      child.stdin.end();
      await endWithProof(child, { exited, clock: options.clock });
      await stdio[Symbol.asyncDispose]();
    },
  };
}

/** What a call gets whose worker has gone. */
export function workerGone(): Fault {
  return new Fault("IO_ERROR", "the worker process ended while it worked on the call", {
    retryable: true,
    details: { reason: "worker_gone" },
    hint: "repeat the call; the worker is started again",
  });
}

function exitOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once("error", (error) => resolve(`could not be started: ${error.message}`));
    child.once("exit", (code, signal) => resolve(signal ? `signal ${signal}` : `status ${code ?? 0}`));
  });
}

/** Its input has ended, which it takes as the order to go; one that does not is killed, and its end is waited for. */
async function endWithProof(
  child: ChildProcess,
  wait: { readonly exited: Promise<string>; readonly clock: Clock },
): Promise<void> {
  {
    using grace = startDeadline({ timeoutMs: graceMs, clock: wait.clock });
    const late = new Promise<boolean>((resolve) =>
      grace.signal.addEventListener("abort", () => resolve(true), { once: true }),
    );
    if (!(await Promise.race([wait.exited.then(() => false), late]))) return;
  }
  child.kill("SIGKILL");
  await wait.exited;
}

/** The worker's standard error is its log, line by line; a line without end is cut. */
function logLines(child: ChildProcess, log: Log): void {
  let held = "";
  child.stderr?.setEncoding("utf8");
  child.stderr?.on("data", (text: string) => {
    const lines = (held + text).split("\n");
    held = (lines.pop() ?? "").slice(0, maxLogLine);
    for (const line of lines)
      if (line.trim() !== "") log.warn(line.slice(0, maxLogLine), { pid: child.pid ?? 0 });
  });
}
