import { spawn, type ChildProcessByStdio } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { faultFromErrno } from "../fault/fault-from-errno.ts";
import { Fault } from "../fault/fault.ts";
import { systemClock, type Clock } from "../lifetime/clock.ts";
import { OutputKeeper, outputLimits, type KeptLimits, type KeptOutput } from "./kept-output.ts";
import { endTree, type TreeRoot, type TreeScope } from "./process-tree.ts";

/** What to run: a program with its arguments, or text for the shell. */
export type Command = { readonly argv: readonly [string, ...string[]] } | { readonly shell: string };

/** The two streams of a command. */
export type OutputStream = "stdout" | "stderr";

/** What `runCommand` takes. */
export interface RunOptions {
  /** The working directory. */
  readonly cwd: string;
  /** The whole environment; nothing is inherited. */
  readonly env: Readonly<Record<string, string>>;
  /** Sent to the command's input; without it the command reads the end of file. */
  readonly stdin?: string | Uint8Array;
  /** Ends the command and everything it started; `runCommand` then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
  /** After so many milliseconds command and tree are ended and the result says `timedOut`. */
  readonly timeoutMs?: number;
  /** Between SIGTERM and SIGKILL, in milliseconds; 500 by default. */
  readonly graceMs?: number;
  /** Takes output as it comes, in order; the command waits while it does. */
  readonly onOutput?: (stream: OutputStream, chunk: Uint8Array) => void | Promise<void>;
  /** What of each stream is kept; 64 KiB of its beginning and 192 KiB of its end by default. */
  readonly keep?: KeptLimits;
  /** Stands in the environment of the command and of all that it starts: `NAME=value`; random by default. */
  readonly marker?: string;
  /** It runs, as this process: leader of a session and a group of its own. */
  readonly onStarted?: (pid: number) => void;
  readonly clock?: Clock;
}

/** How a command ended. A status other than 0 is no failure. */
export interface CommandResult {
  /** Its exit status; undefined when a signal ended it. */
  readonly exitCode: number | undefined;
  /** The signal that ended it. */
  readonly signal: string | undefined;
  readonly timedOut: boolean;
  readonly durationMs: number;
  readonly stdout: KeptOutput;
  readonly stderr: KeptOutput;
  /** Processes that could not be ended; empty unless the kernel holds one. */
  readonly unended: readonly number[];
}

type Child = ChildProcessByStdio<Writable | null, Readable, Readable>;

const settings = { graceMs: 500, proofMs: 2_000, pipeMs: 250 };

/**
 * Runs a command in a session of its own until it has ended. When it ends by itself, what it left in that session is
 * ended too; on time-out or abort also what has left it. A program that does not exist is `NOT_FOUND`, one that may
 * not be run `POLICY_DENIED` with the errno.
 */
export async function runCommand(command: Command, options: RunOptions): Promise<CommandResult> {
  options.signal?.throwIfAborted();
  const marker = options.marker ?? `FAIRLEAD_COMMAND=${randomUUID()}`;
  const child = startOrFail(command, { ...options, marker });
  if (child.pid === undefined) throw toSpawnFault(await errorOf(child), command);
  // Later errors of the process itself (a signal that cannot be sent) show in how it ends.
  child.on("error", () => undefined);
  options.onStarted?.(child.pid);
  return await followChild(child, { pid: child.pid, marker }, options);
}

async function followChild(child: Child, root: TreeRoot, options: RunOptions): Promise<CommandResult> {
  const clock = options.clock ?? systemClock;
  const startedAt = clock.now();
  const keepers = {
    stdout: new OutputKeeper(options.keep),
    stderr: new OutputKeeper(options.keep ?? outputLimits),
  };
  const gone = new AbortController();
  const reads = Promise.all([
    drain(child, "stdout", { keeper: keepers.stdout, onOutput: options.onOutput, gone: gone.signal }),
    drain(child, "stderr", { keeper: keepers.stderr, onOutput: options.onOutput, gone: gone.signal }),
  ]);
  reads.catch(() => undefined);
  const exit = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  const cut = await waitForEnd(exit, { clock, options, reads });
  const scope: TreeScope = cut === "exited" ? "session" : "all";
  const graceMs = options.graceMs ?? settings.graceMs;
  if (scope === "session") await settleWithin(reads, settings.pipeMs, clock);
  const unended = await endTree(root, { scope, graceMs, proofMs: settings.proofMs, clock });
  if (unended.length > 0 || cut === "aborted") {
    gone.abort();
    child.stdout.destroy();
    child.stderr.destroy();
  }
  if (cut === "aborted") throw options.signal?.reason;
  const failure = await reads.then(
    () => undefined,
    (error: unknown) => ({ error }),
  );
  if (failure) throw failure.error;
  const { code, signal } = await raceUnended(exit, unended);
  return {
    exitCode: code ?? undefined,
    signal: signal ?? undefined,
    timedOut: cut === "timed-out",
    durationMs: Math.round(clock.now() - startedAt),
    stdout: keepers.stdout.take(),
    stderr: keepers.stderr.take(),
    unended,
  };
}

interface WaitParts {
  readonly clock: Clock;
  readonly options: RunOptions;
  readonly reads: Promise<unknown>;
}

/** Waits for the exit, the time-out, the abort, or a taker of output that fails. */
async function waitForEnd(
  exit: Promise<unknown>,
  parts: WaitParts,
): Promise<"exited" | "timed-out" | "aborted" | "failed"> {
  const { clock, options, reads } = parts;
  const over = new AbortController();
  const { signal } = options;
  const waits: Promise<"exited" | "timed-out" | "aborted" | "failed">[] = [
    exit.then(() => "exited" as const),
    new Promise((resolve) => {
      reads.catch(() => resolve("failed"));
    }),
  ];
  if (signal) waits.push(abortOf(signal, over.signal));
  if (options.timeoutMs !== undefined) {
    waits.push(
      clock.sleep(options.timeoutMs, { signal: over.signal }).then(
        () => "timed-out" as const,
        () => "exited" as const,
      ),
    );
  }
  try {
    return await Promise.race(waits);
  } finally {
    over.abort();
  }
}

function abortOf(signal: AbortSignal, over: AbortSignal): Promise<"aborted"> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve("aborted");
    signal.addEventListener("abort", () => resolve("aborted"), { once: true, signal: over });
  });
}

async function settleWithin(work: Promise<unknown>, ms: number, clock: Clock): Promise<void> {
  const over = new AbortController();
  await Promise.race([work, clock.sleep(ms, { signal: over.signal })]).catch(() => undefined);
  over.abort();
}

/** The exit, unless the process is one that could not be ended. */
async function raceUnended(
  exit: Promise<{ code: number | null; signal: string | null }>,
  unended: readonly number[],
): Promise<{ code: number | null; signal: string | null }> {
  const never = { code: null, signal: null };
  return unended.length === 0 ? await exit : await Promise.race([exit, Promise.resolve(never)]);
}

interface DrainParts {
  readonly keeper: OutputKeeper;
  readonly onOutput: RunOptions["onOutput"] | undefined;
  readonly gone: AbortSignal;
}

async function drain(child: Child, stream: OutputStream, parts: DrainParts): Promise<void> {
  try {
    for await (const chunk of child[stream]) {
      const bytes = chunk as Uint8Array;
      parts.keeper.push(bytes);
      await parts.onOutput?.(stream, bytes);
    }
  } catch (error) {
    // A stream that we destroyed ourselves ends with an error of its own.
    if (!parts.gone.aborted) throw error;
  }
}

interface StartOptions extends RunOptions {
  readonly marker: string;
}

/** Some failures of a start are thrown, such as arguments that are too long; others come as an event. */
function startOrFail(command: Command, options: StartOptions): Child {
  try {
    return start(command, options);
  } catch (error) {
    throw toSpawnFault(error, command);
  }
}

function start(command: Command, options: StartOptions): Child {
  const [file, ...args] = "argv" in command ? command.argv : (["/bin/sh", "-c", command.shell] as const);
  const [name = "", value = ""] = options.marker.split("=");
  const child = spawn(file, args, {
    cwd: options.cwd,
    env: { ...options.env, [name]: value },
    // A session and a group of its own: what it starts can be found and ended.
    detached: true,
    windowsHide: true,
    stdio: [options.stdin === undefined ? "ignore" : "pipe", "pipe", "pipe"],
    // Both outputs are pipes, as asked for; the types only know it of literal lists.
  }) as Child;
  // A command that does not read all of its input closes the pipe.
  child.stdin?.on("error", () => undefined);
  child.stdin?.end(options.stdin);
  return child;
}

/** Why a program could not be started, as its platform says. */
async function errorOf(child: Child): Promise<unknown> {
  const [error] = (await once(child, "error").catch((thrown: unknown) => [thrown])) as unknown[];
  return error;
}

function toSpawnFault(cause: unknown, command: Command): unknown {
  const what =
    "argv" in command ? `the command ${JSON.stringify(command.argv[0].slice(0, 200))}` : "the shell";
  const fault = faultFromErrno(cause, what);
  if (!(fault instanceof Fault)) return new Fault("TOOL_FAILED", `${what} could not be started`, { cause });
  const errno = fault.details["errno"];
  if (errno === "EACCES" || errno === "EPERM") {
    return new Fault("TOOL_FAILED", `${what} may not be run`, { details: { errno }, cause });
  }
  return fault;
}
