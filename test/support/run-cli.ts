import { raceSignal, startDeadline } from "../../shared/lifetime/clock.ts";
import { type SpawnOptions, spawnProgram } from "./spawn-program.ts";

/** How one command is run. */
export interface CliOptions extends SpawnOptions {
  /** How long it may take, in milliseconds; 30 s by default. */
  readonly timeoutMs?: number;
}

/** What a command left. */
export interface CliResult {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** Standard output as one JSON document; fails when it is none. */
  readonly json: unknown;
  /** Standard output as JSON objects, one a line. */
  readonly events: readonly unknown[];
}

/** Runs the real program to its end. */
export async function runCli(args: readonly string[], options: CliOptions): Promise<CliResult> {
  await using program = spawnProgram(args, options);
  using deadline = startDeadline({ timeoutMs: options.timeoutMs ?? 30_000 });
  const { exitCode } = await raceSignal(program.ended, deadline.signal);
  const stdout = program.stdout();
  const stderr = program.stderr();
  const fail = (error: unknown): never => {
    throw new Error(`standard output is not JSON: ${stdout}\n${stderr}`, { cause: error });
  };
  return {
    exitCode,
    stdout,
    stderr,
    get json(): unknown {
      try {
        return JSON.parse(stdout);
      } catch (error) {
        return fail(error);
      }
    },
    get events(): readonly unknown[] {
      try {
        return stdout
          .split("\n")
          .filter((line) => line !== "")
          .map((line): unknown => JSON.parse(line));
      } catch (error) {
        return fail(error);
      }
    },
  };
}
