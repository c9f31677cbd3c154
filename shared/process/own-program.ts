import { type ChildProcessByStdio, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { Fault } from "../fault/fault.ts";
import { type Clock, raceSignal, startDeadline } from "../lifetime/clock.ts";

/** How this program is started once more, as a child. */
export interface OwnProgramOptions {
  /** The file of the program. */
  readonly entry: string;
  readonly args: readonly string[];
  /** The whole environment; nothing is inherited. */
  readonly env: Readonly<Record<string, string>>;
  /** Written to its input, which stays open until the child is disposed. */
  readonly input?: string;
  readonly clock: Clock;
}

/** How a child ended. */
export interface OwnProgramEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
}

/**
 * A child of this same program. Its standard error is ours. Disposing asks it to end (SIGTERM and the end of its input)
 * and ends it by force after ten seconds.
 */
export interface OwnProgram extends AsyncDisposable {
  readonly pid: number;
  /** Resolves once it has ended; never rejects. */
  readonly ended: Promise<OwnProgramEnd>;
  /** The lines of its standard output; read once. */
  readonly lines: AsyncIterable<string>;
}

const endTimeoutMs = 10_000;

/** Starts this program once more. The caller disposes it. */
export function startOwnProgram(options: OwnProgramOptions): OwnProgram {
  const child = spawn(process.execPath, [options.entry, ...options.args], {
    env: { ...options.env },
    stdio: ["pipe", "pipe", "inherit"],
  });
  const { pid } = child;
  if (pid === undefined) {
    child.once("error", () => undefined);
    throw new Fault("IO_ERROR", "the program could not be started once more");
  }
  const ended = new Promise<OwnProgramEnd>((resolve) => {
    child.once("exit", (exitCode, signal) => resolve({ exitCode, signal }));
  });
  // A child that ends early closes the pipe: how it ended says why.
  child.stdin.on("error", () => undefined);
  if (options.input !== undefined) child.stdin.write(options.input);
  return {
    pid,
    ended,
    lines: createInterface({ input: child.stdout, crlfDelay: Infinity }),
    [Symbol.asyncDispose]: () => endChild(child, ended, options.clock),
  };
}

async function endChild(
  child: ChildProcessByStdio<Writable, Readable, null>,
  ended: Promise<OwnProgramEnd>,
  clock: Clock,
): Promise<void> {
  child.stdin.end();
  child.stdout.resume();
  if (child.exitCode === null && child.signalCode === null) child.kill("SIGTERM");
  using deadline = startDeadline({ timeoutMs: endTimeoutMs, clock });
  try {
    await raceSignal(ended, deadline.signal);
  } catch {
    child.kill("SIGKILL");
    await ended;
  }
}
