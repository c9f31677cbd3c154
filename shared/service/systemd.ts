import { Fault, isFault } from "../fault/fault.ts";
import type { Clock } from "../lifetime/clock.ts";
import { runCommand, type CommandResult } from "../process/run-command.ts";
import type { ServiceScope } from "./unit-file.ts";

/** The systemd of this machine or of this user. */
export interface Systemd {
  readonly scope: ServiceScope;
  /** Runs `systemctl` with those arguments; a status other than 0 is a fault with what it said. */
  control(args: readonly string[]): Promise<void>;
  /** How a service is; all that is known of one that there is not is its state, `inactive`. */
  show(unit: string): Promise<ServiceState>;
  /** What a service wrote, as the journal has it; with `follow` until the signal aborts. */
  journal(unit: string, options: JournalOptions): Promise<void>;
}

/** How a service is. */
export interface ServiceState {
  /** As systemd says it: `active`, `activating`, `failed`, `inactive`. */
  readonly state: string;
  /** More exactly: `running`, `auto-restart`, `dead`. */
  readonly substate: string;
  /** The file that it has read it from; empty: none. */
  readonly file: string;
  /** The process that runs; 0: none. */
  readonly pid: number;
  /** How often it was started again by itself. */
  readonly restarts: number;
  /** Status that it ended with the last time. */
  readonly lastStatus: number;
}

/** Which part of the journal. */
export interface JournalOptions {
  readonly lines: number;
  readonly follow: boolean;
  readonly signal: AbortSignal;
  readonly onOutput: (chunk: Uint8Array) => Promise<void>;
}

/** What reaching a systemd takes. */
export interface SystemdOptions {
  readonly scope: ServiceScope;
  /** The variables that lead to it; see `managerVariables`. */
  readonly variables: Readonly<Record<string, string>>;
  /** What to do where no systemd answers. */
  readonly hint: string;
  readonly clock: Clock;
}

const controlTimeoutMs = 60_000;
const shown = ["ActiveState", "SubState", "FragmentPath", "MainPID", "NRestarts", "ExecMainStatus"] as const;

/** Reaches systemd; `INSTALL_UNSUPPORTED` where it does not answer, or where there is none. */
export async function openSystemd(options: SystemdOptions): Promise<Systemd> {
  const { scope } = options;
  if (process.platform !== "linux") throw unsupported(options, `${process.platform} has no systemd`);
  const probe = await systemctl(options, ["show", "--property=Version"]);
  if (probe.exitCode !== 0) throw unsupported(options, saidBy(probe));
  const control = async (args: readonly string[]): Promise<void> => {
    const result = await systemctl(options, args);
    if (result.exitCode === 0) return;
    throw new Fault("IO_ERROR", `systemctl ${args.join(" ")}: ${saidBy(result)}`, {
      hint: `systemctl --${scope} status ${args.at(-1) ?? ""}`,
    });
  };
  return {
    scope,
    control,
    show: async (unit) => toState(await systemctl(options, ["show", `--property=${shown.join(",")}`, unit])),
    journal: (unit, journal) => readJournal(options, { ...journal, unit }),
  };
}

async function systemctl(options: SystemdOptions, args: readonly string[]): Promise<CommandResult> {
  try {
    return await runCommand(
      { argv: ["systemctl", `--${options.scope}`, ...args] },
      { cwd: "/", env: options.variables, timeoutMs: controlTimeoutMs, clock: options.clock },
    );
  } catch (error) {
    if (isFault(error, "NOT_FOUND")) throw unsupported(options, "there is no systemctl");
    throw error;
  }
}

async function readJournal(
  options: SystemdOptions,
  { unit, lines, follow, signal, onOutput }: JournalOptions & { readonly unit: string },
): Promise<void> {
  const from = options.scope === "user" ? `--user-unit=${unit}` : `--unit=${unit}`;
  const result = await runCommand(
    {
      argv: [
        "journalctl",
        from,
        `--lines=${lines}`,
        "--output=short-iso",
        "--no-pager",
        ...(follow ? ["--follow"] : []),
      ],
    },
    {
      cwd: "/",
      env: options.variables,
      signal,
      clock: options.clock,
      onOutput: async (stream, chunk) => {
        if (stream === "stdout") await onOutput(chunk);
      },
    },
  );
  if (result.exitCode === 0) return;
  throw new Fault("IO_ERROR", `journalctl: ${saidBy(result)}`, { hint: `journalctl ${from}` });
}

function unsupported({ scope, hint }: SystemdOptions, why: string): Fault {
  return new Fault("INSTALL_UNSUPPORTED", `the systemd of this ${scope} does not answer: ${why}`, { hint });
}

function saidBy({ stderr, exitCode }: CommandResult): string {
  const [line = ""] = stderr.head.toString("utf8").trim().split("\n");
  return line || `it ended with status ${exitCode ?? "none"}`;
}

function toState({ stdout }: CommandResult): ServiceState {
  const lines = stdout.head.toString("utf8").split("\n");
  const read = (name: (typeof shown)[number]): string =>
    lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
  return {
    state: read("ActiveState") || "inactive",
    substate: read("SubState"),
    file: read("FragmentPath"),
    pid: Number(read("MainPID")),
    restarts: Number(read("NRestarts")),
    lastStatus: Number(read("ExecMainStatus")),
  };
}
