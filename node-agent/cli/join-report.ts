import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Log } from "../../shared/log/log.ts";
import { createCommandLog } from "../../shared/terminal/command-log.ts";
import { toTime } from "../../shared/terminal/json.ts";
import type { Output } from "../../shared/terminal/output.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { type NodeStatus, readNodeStatus, writeNodeStatus } from "../config/status-file.ts";
import type { ApprovalWait } from "../pairing/wait-for-approval.ts";

/** Tells people, programs, the log and `node status` how a join waits for an administrator. */
export interface JoinReport {
  /** The request under which a join of this home waited before; empty: none. */
  readonly continues: string;
  /** Whether what waits in this home is the request of the machine that it was copied from. */
  readonly isCopy: boolean;
  /** Whether this join had to wait. */
  readonly hasWaited: () => boolean;
  /** Tells a change; once a change, and nothing in between. */
  readonly onWait: (wait: ApprovalWait) => Promise<void>;
  /** Leaves the end of a wait for `node status`, and throws it again. */
  readonly failed: (error: unknown) => Promise<never>;
}

/** What a report writes to. */
export interface JoinReportParts {
  /** The node's folder. */
  readonly dir: string;
  readonly version: string;
  readonly output: Output;
  readonly log: Log;
  readonly clock: Clock;
  /** What the join does with an identity that is there. */
  readonly joinsAs?: "same_key" | "new_key" | undefined;
}

/** The report of a command. */
export function startJoinReport(
  runtime: Runtime,
  existing: "refuse" | "same_key" | "new_key",
): Promise<JoinReport> {
  const { clock, home, output, version } = runtime;
  const joinsAs = existing === "refuse" ? undefined : existing;
  const log = createCommandLog(runtime);
  return createJoinReport({ dir: home.nodeDir, version, output, clock, log, joinsAs });
}

/** A report that goes on where the last join of the home stopped. */
export async function createJoinReport(parts: JoinReportParts): Promise<JoinReport> {
  const before = await readNodeStatus(parts.dir);
  const wasWaiting = before?.state === "waiting_for_approval";
  const isCopy = wasWaiting && parts.joinsAs === "new_key" && before.joinsAs !== "new_key";
  let told: ApprovalWait | undefined;
  return {
    continues: wasWaiting && !isCopy ? (before.requestId ?? "") : "",
    isCopy,
    hasWaited: () => told !== undefined,
    onWait: async (wait) => {
      const isNew = told?.requestId !== wait.requestId;
      told = wait;
      await writeNodeStatus(parts.dir, toStatus(wait, parts));
      if (isNew) await announce(wait, parts.output);
      else logChange(wait, parts.log);
    },
    failed: async (error) => {
      const fault = faultFromError(error);
      // Whoever interrupts a join goes on with it later; the request stays.
      if (fault.code !== "CANCELLED" && (told || wasWaiting) && !fault.retryable) {
        const { code, message, hint = "", retryable } = fault;
        const ended = { state: "offline", reason: code.toLowerCase(), code, message, retryable } as const;
        const sinceMs = parts.clock.now();
        await writeNodeStatus(parts.dir, { ...blank(parts), ...ended, sinceMs, nextStep: hint });
      }
      throw error;
    },
  };
}

async function announce(wait: ApprovalWait, output: Output): Promise<void> {
  const { requestId, comparisonCode, command } = wait;
  const event = {
    event: "waiting_for_approval",
    requestId,
    comparisonCode,
    command,
    since: toTime(wait.askedAt),
    expiresAt: toTime(wait.expiresAt),
  };
  await output.event(event, () => [
    `waiting for approval: request ${requestId}, until ${event.expiresAt ?? "it is decided"}`,
    `comparison code: ${comparisonCode} (the gateway shows the same)`,
    "an administrator lets this machine in with",
    command,
  ]);
}

function logChange({ requestId, fault }: ApprovalWait, log: Log): void {
  if (fault)
    log.warn("the gateway is asked again later", { requestId, code: fault.code, reason: fault.message });
  else log.info("waiting for approval again", { requestId });
}

function toStatus(wait: ApprovalWait, parts: JoinReportParts): NodeStatus {
  return {
    ...blank(parts),
    state: "waiting_for_approval",
    sinceMs: wait.askedAt,
    reason: wait.fault ? "gateway_out_of_reach" : "waiting_for_approval",
    code: wait.fault?.code ?? "",
    message: wait.fault?.message ?? "",
    retryable: true,
    nextStep: wait.command,
    requestId: wait.requestId,
    comparisonCode: wait.comparisonCode,
    ...(parts.joinsAs === undefined ? {} : { joinsAs: parts.joinsAs }),
  };
}

function blank({ version }: JoinReportParts): Omit<NodeStatus, "state" | "sinceMs" | "reason" | "code"> & {
  readonly message: string;
} {
  return {
    message: "",
    retryable: false,
    nextStep: "",
    attempts: 0,
    lastAttemptMs: 0,
    nextAttemptMs: 0,
    address: "",
    version,
    details: {},
    configProblem: "",
    installedVersion: "",
  };
}
