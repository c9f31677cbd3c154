import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { raceSignal, startDeadline, systemClock } from "../../shared/lifetime/clock.ts";
import { programFile } from "./program-file.ts";

const runAsFile = fileURLToPath(new URL("../fixtures/programs/run-as.mjs", import.meta.url));
const keptCharacters = 4 * 1024 * 1024;

/** How the real program is started. */
export interface SpawnOptions {
  /** Its home. */
  readonly home: string;
  /** Added to a small environment of its own; nothing else is inherited. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Written to its input, which then ends; without it the input ends at once. */
  readonly stdin?: string | Uint8Array;
  /** Leaves its input open: `write` sends more, `endInput` ends it. */
  readonly keepInput?: boolean;
  /** Runs it as this user; only root can. */
  readonly uid?: number;
  /** Put before the entry: options of Node. */
  readonly nodeArgs?: readonly string[];
  /** The file that is started; the built program by default. */
  readonly entry?: string;
}

/** How a program ended. */
export interface ProgramEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A running program of ours. Disposing ends it (SIGTERM, then SIGKILL) and fails when anything of it is left. */
export interface Program extends AsyncDisposable {
  readonly pid: number;
  /** Resolves when it has ended and its output is whole; never rejects. */
  readonly ended: Promise<ProgramEnd>;
  /** Writes to its input, when that was left open. */
  write(text: string): void;
  /** Ends its input, when that was left open. */
  endInput(): void;
  /** What it wrote so far, the last 4 MiB of it. */
  stdout(): string;
  stderr(): string;
  /** The first line of its output that fits; fails when the program ends or the time passes before. */
  waitForLine(fits: (line: string) => boolean, timeoutMs?: number): Promise<string>;
  /** Sends a signal and waits until it has ended. */
  kill(signal: NodeJS.Signals): Promise<ProgramEnd>;
  /** Sends a signal and does not wait: for SIGSTOP and SIGCONT. */
  signal(signal: NodeJS.Signals): void;
}

/** Starts the program with some arguments. The caller disposes it. */
export function spawnProgram(args: readonly string[], options: SpawnOptions): Program {
  const marker = randomUUID();
  const child = spawn(process.execPath, toArgv(args, options), {
    cwd: options.cwd ?? options.home,
    env: toEnvironment(options, marker),
    stdio: ["pipe", "pipe", "pipe"],
  });
  const { pid } = child;
  if (pid === undefined) throw new Error("the program could not be started");
  child.stdin.on("error", () => undefined);
  if (options.keepInput !== true) child.stdin.end(options.stdin ?? "");
  return follow(child, { pid, marker });
}

function toArgv(args: readonly string[], options: SpawnOptions): string[] {
  const { entry = programFile, uid } = options;
  const program = uid === undefined ? [entry] : [runAsFile, String(uid), entry];
  return [...(options.nodeArgs ?? []), ...program, ...args];
}

function toEnvironment(options: SpawnOptions, marker: string): Record<string, string> {
  return {
    PATH: process.env["PATH"] ?? "",
    HOME: options.home,
    FAIRLEAD_HOME: options.home,
    FAIRLEAD_LOG: "debug",
    FAIRLEAD_TEST: marker,
    // Each start would compile every file again.
    NODE_COMPILE_CACHE: join(tmpdir(), `fairlead-compile-cache-${options.uid ?? "own"}`),
    ...options.env,
  };
}

interface Followed {
  readonly pid: number;
  readonly marker: string;
}

function follow(child: ChildProcess, { pid, marker }: Followed): Program {
  const output = { stdout: "", stderr: "" };
  const listeners = new Set<() => void>();
  for (const name of ["stdout", "stderr"] as const) {
    child[name]?.setEncoding("utf8").on("data", (text: string) => {
      output[name] = (output[name] + text).slice(-keptCharacters);
      for (const listener of listeners) listener();
    });
  }
  const ended = new Promise<ProgramEnd>((resolve) => {
    child.once("close", (exitCode, signal) => resolve({ exitCode, signal }));
  });
  const kill = async (signal: NodeJS.Signals): Promise<ProgramEnd> => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    return await ended;
  };
  return {
    pid,
    ended,
    write: (text) => void child.stdin?.write(text),
    endInput: () => void child.stdin?.end(),
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    waitForLine: (fits, timeoutMs = 60_000) =>
      waitForLine({ fits, timeoutMs, output, listeners, ended, child }),
    kill,
    signal: (signal) => void child.kill(signal),
    async [Symbol.asyncDispose]() {
      await endProgram(child, ended);
      await assertNothingLeft(marker);
    },
  };
}

interface LineWait {
  readonly fits: (line: string) => boolean;
  readonly timeoutMs: number;
  readonly output: { readonly stdout: string; readonly stderr: string };
  readonly listeners: Set<() => void>;
  readonly ended: Promise<ProgramEnd>;
  readonly child: ChildProcess;
}

async function waitForLine(wait: LineWait): Promise<string> {
  using deadline = startDeadline({ timeoutMs: wait.timeoutMs });
  const found = Promise.withResolvers<string>();
  const look = (): void => {
    const line = wait.output.stdout.split("\n").slice(0, -1).find(wait.fits);
    if (line !== undefined) found.resolve(line);
  };
  wait.listeners.add(look);
  look();
  const over = wait.ended.then((end) => {
    look();
    throw new Error(`the program ended (${JSON.stringify(end)}) before the line came:\n${everything(wait)}`);
  });
  try {
    return await raceSignal(Promise.race([found.promise, over]), deadline.signal);
  } catch (error) {
    if (deadline.signal.aborted)
      throw new Error(`the line did not come:\n${everything(wait)}`, { cause: error });
    throw error;
  } finally {
    wait.listeners.delete(look);
    over.catch(() => undefined);
  }
}

function everything({ child, output }: LineWait): string {
  return `${child.spawnargs.join(" ")}\n${output.stdout}\n${output.stderr}`;
}

/** A program has ten seconds to end by itself; one that needs SIGKILL has a defect. */
async function endProgram(child: ChildProcess, ended: Promise<ProgramEnd>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) {
    await ended;
    return;
  }
  // A program that was frozen by a test cannot hear SIGTERM.
  child.kill("SIGCONT");
  child.kill("SIGTERM");
  using deadline = startDeadline({ timeoutMs: 10_000 });
  try {
    await raceSignal(ended, deadline.signal);
  } catch (error) {
    child.kill("SIGKILL");
    await ended;
    throw new Error(`the program did not end after SIGTERM: ${child.spawnargs.join(" ")}`, { cause: error });
  }
}

/** Whatever a program started carries its mark; all of it must be gone once the program is. */
async function assertNothingLeft(marker: string): Promise<void> {
  if (process.platform !== "linux") return;
  const giveUpAt = systemClock.now() + 5_000;
  for (;;) {
    const left = await findMarked(marker);
    if (left.length === 0) return;
    if (systemClock.now() >= giveUpAt) {
      for (const pid of left) process.kill(pid, "SIGKILL");
      throw new Error(`processes were left behind: ${left.join(", ")}`);
    }
    await systemClock.sleep(50);
  }
}

async function findMarked(marker: string): Promise<readonly number[]> {
  const left: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const environment = await readFile(`/proc/${name}/environ`, "latin1").catch(() => "");
    if (environment.includes(`FAIRLEAD_TEST=${marker}`)) left.push(Number(name));
  }
  return left;
}
