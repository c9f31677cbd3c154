import { Fault } from "../../shared/fault/fault.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import { createCommandLog } from "../../shared/terminal/command-log.ts";
import type { OptionSpec } from "../../shared/terminal/command.ts";
import { untilStopped } from "../../shared/terminal/interruption.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import type * as AgentModule from "../agent.ts";
import { readNodeSettings } from "../config/node-settings.ts";
import { loadIdentity } from "../pairing/identity.ts";

/** What every command takes that runs the agent. */
export const runOptions: readonly OptionSpec[] = [
  { flags: "--until-stdin-ends", text: "stop when standard input ends, for a program that starts this one" },
];

/** Loads all of this side, which no other command needs; a join does it while it waits for a person. */
export function loadAgent(): Promise<typeof AgentModule> {
  return import("../agent.ts");
}

/** How an agent is run. */
export interface RunAgentOptions {
  /** A person has just let the machine in and looks for it: the link comes first, skills follow. */
  readonly isLookedFor?: boolean;
}

// Enough for a small workspace.
const lookedForSearchMs = 300;

/**
 * Runs the agent until it is stopped or its identity has ended; prints `ready` once its link is up and published. The
 * caller holds the home.
 */
export async function runAgent(
  input: CommandInput,
  runtime: Runtime,
  options: RunAgentOptions = {},
): Promise<number> {
  const readSettings = (): ReturnType<typeof readNodeSettings> => readNodeSettings(runtime);
  const settings = await readSettings();
  await loadIdentity(runtime.home.nodeDir);
  const log = createCommandLog(runtime);
  const { startAgent } = await loadAgent();
  await using agent = await startAgent(settings, {
    clock: runtime.clock,
    log,
    version: runtime.version,
    readSettings,
    environment: process.env,
    ...(options.isLookedFor === true ? { firstSearchMs: lookedForSearchMs } : {}),
    endsJobs: () => input.flag("until-stdin-ends") || isInterrupted(runtime),
  });
  const { nodeId, alias } = agent;
  // A first link that never comes is told by `closed`, and a reader that is gone stops no agent.
  void agent.ready
    .then(() => runtime.output.event({ event: "ready", nodeId, alias }, () => ["ready"]))
    .catch(() => undefined);
  if (!input.flag("until-stdin-ends")) return await untilStopped(runtime.signal, agent.closed);
  const orphaned = inputEnd(runtime);
  return await untilStopped(AbortSignal.any([runtime.signal, orphaned]), agent.closed);
}

/** Whoever presses Ctrl-C wants all of it to end; what a service manager stops is soon started again, and goes on. */
function isInterrupted({ signal }: Runtime): boolean {
  const reason: unknown = signal.reason;
  return reason instanceof Fault && reason.details["signal"] !== "SIGTERM";
}

/** Aborts when standard input ends, as if the process had been told to end. */
function inputEnd(runtime: Runtime): AbortSignal {
  const controller = new AbortController();
  const { bytes } = runtime.input;
  const onEnd = (): void =>
    controller.abort(
      new Fault("CANCELLED", "standard input ended", {
        details: { reason: "interrupted", signal: "SIGTERM" },
      }),
    );
  bytes.once("end", onEnd).once("close", onEnd).resume();
  return controller.signal;
}
