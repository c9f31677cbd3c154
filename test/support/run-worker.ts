import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { resolveWorkspaceWorkerArgv } from "../../node-agent/workers/worker-argv.ts";

const compileCache = fileURLToPath(new URL("../../node_modules/.cache/compile", import.meta.url));

/** How a worker ended. */
export interface WorkerResult {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the Memory worker as a program of its own, with this input, to its end. */
export async function runWorker(argv: readonly string[], input: string): Promise<WorkerResult> {
  const child = start(argv);
  const stdout = collect(child, "stdout");
  const stderr = collect(child, "stderr");
  child.stdin.on("error", () => undefined);
  child.stdin.end(input);
  const exitCode = await exitOf(child);
  return { exitCode, stdout: stdout(), stderr: stderr() };
}

/** A running watch. Disposing ends it for certain. */
export interface WorkerWatch extends AsyncDisposable {
  readonly pid: number;
  /** Its output so far, a document a line. */
  lines(): readonly Readonly<Record<string, unknown>>[];
  stderr(): string;
  send(text: string): void;
  /** Ends its input. */
  end(): void;
  /** Its output, unread: whoever takes it reads it alone. */
  readonly child: ChildProcessWithoutNullStreams;
  /** Resolves with its exit status. */
  readonly ended: Promise<number | null>;
}

/** What `startWorkerWatch` takes. */
export interface WorkerWatchOptions {
  /** Leave the output alone: the test reads it. */
  readonly leaveOutput?: boolean;
}

/** Starts the Memory worker as a watch of this folder. */
export function startWorkerWatch(dir: string, options: WorkerWatchOptions = {}): WorkerWatch {
  const child = start(["--watch-files", dir]);
  const stdout = options.leaveOutput === true ? (): string => "" : collect(child, "stdout");
  const stderr = collect(child, "stderr");
  const ended = exitOf(child);
  child.stdin.on("error", () => undefined);
  return {
    pid: child.pid ?? 0,
    child,
    ended,
    stderr,
    lines: () =>
      stdout()
        .split("\n")
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    send: (text) => void child.stdin.write(text),
    end: () => void child.stdin.end(),
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      // What nobody reads any more would keep the pipe open.
      child.stdout.destroy();
      await ended;
    },
  };
}

function start(argv: readonly string[]): ChildProcessWithoutNullStreams {
  const [interpreter, entry] = resolveWorkspaceWorkerArgv("memory");
  // Types are stripped once for all starts.
  const env = { HOME: "/", PATH: "/usr/bin:/bin", NODE_COMPILE_CACHE: compileCache };
  return spawn(interpreter, [entry, ...argv], { env });
}

function exitOf(child: ChildProcessWithoutNullStreams): Promise<number | null> {
  return new Promise((resolve) => {
    child.once("close", (code) => resolve(code));
  });
}

function collect(child: ChildProcessWithoutNullStreams, stream: "stdout" | "stderr"): () => string {
  let text = "";
  child[stream].setEncoding("utf8").on("data", (part: string) => {
    text += part;
  });
  return () => text;
}
