import { Fault } from "../fault/fault.ts";

/** The first SIGINT, SIGTERM or SIGHUP of this process. */
export interface Interruption extends Disposable {
  /** Aborts with `CANCELLED`, `details.reason` = `interrupted` and `details.signal`. */
  readonly signal: AbortSignal;
}

/** What is listened to, and the way out for whoever is in a hurry. */
export interface InterruptionOptions {
  readonly events: Pick<NodeJS.Process, "on" | "off">;
  /** Called at the second SIGINT: the command did not end by itself. */
  readonly onSecond: () => void;
}

/** A terminal that was closed ends a command as Ctrl-C does: what it started must not outlive it. */
const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Listens for SIGINT, SIGTERM and SIGHUP until it is disposed. */
export function listenForInterruption(options: InterruptionOptions): Interruption {
  const controller = new AbortController();
  const listen = (name: NodeJS.Signals): void => {
    if (controller.signal.aborted && name === "SIGINT") options.onSecond();
    controller.abort(
      new Fault("CANCELLED", "the command was interrupted", {
        details: { reason: "interrupted", signal: name },
      }),
    );
  };
  for (const name of signals) options.events.on(name, listen);
  return {
    signal: controller.signal,
    [Symbol.dispose]: () => {
      for (const name of signals) options.events.off(name, listen);
    },
  };
}

/**
 * Waits until a long-running command should end: at an interruption, or when what it runs has closed. Gives the exit
 * status: SIGTERM is how a service is stopped, so it ends well (0); the others are 130.
 */
export async function untilStopped(signal: AbortSignal, closed: Promise<unknown>): Promise<number> {
  const stopped = Promise.withResolvers<undefined>();
  const onAbort = (): void => stopped.resolve(undefined);
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  const reason = await Promise.race([stopped.promise, closed.then((why) => ({ why }))]);
  signal.removeEventListener("abort", onAbort);
  if (reason === undefined) return stoppedStatus(signal);
  throw reason.why;
}

/** The exit status of a command that runs until it is stopped, once its signal has ended it. */
export function stoppedStatus({ reason }: AbortSignal): number {
  return isTermination(reason) ? 0 : 130;
}

function isTermination(reason: unknown): boolean {
  return reason instanceof Fault && reason.details["signal"] === "SIGTERM";
}
