import { Fault } from "../../shared/fault/fault.ts";

/** Why a workspace cannot be reached. */
export type UnavailableReason = "not_started" | "stopped" | "node_offline" | "draining" | "revoked";

const words: Readonly<Record<UnavailableReason, string>> = {
  not_started: "is declared, and its node has not offered it yet",
  stopped: "is no longer exported by its node",
  node_offline: "cannot be reached: its node is offline",
  draining: "takes no new work: its node is draining",
  revoked: "is gone for good: its node was revoked",
};

const hints: Readonly<Record<UnavailableReason, string>> = {
  not_started: "start the agent on the node with fairlead node run, and look at fairlead workspaces ls",
  stopped: "export it again on the node with fairlead node workspace add NAME DIR",
  node_offline: "look at fairlead nodes ls, and start the agent on the node with fairlead node run",
  draining: "wait, or end the drain with fairlead nodes undrain NODE",
  revoked: "pair the machine again: fairlead invite",
};

/** Whether `text` is a reason of the closed list. */
export function isUnavailableReason(text: string): text is UnavailableReason {
  return Object.hasOwn(words, text);
}

/** What may be said beside the reason. */
export interface UnavailableOptions {
  /** The workspace as people know it: `devbox:/app`. */
  readonly shown: string;
  readonly cause?: unknown;
  /** It was exported anew with other settings: what ran under the old ones has ended, and the next call finds it. */
  readonly isReplaced?: boolean;
}

/** The fault of a workspace that cannot be reached; only a revoked one will never come back. */
export function workspaceUnavailable(reason: UnavailableReason, options: UnavailableOptions): Fault {
  const replaced = options.isReplaced === true;
  const what = replaced ? "was exported anew with other settings meanwhile" : words[reason];
  return new Fault("WORKSPACE_ACCESS_UNAVAILABLE", `the workspace ${options.shown} ${what}`, {
    hint: replaced ? "repeat the command" : hints[reason],
    retryable: reason !== "revoked",
    details: { reason, workspace: options.shown },
    ...(options.cause === undefined ? {} : { cause: options.cause }),
  });
}
