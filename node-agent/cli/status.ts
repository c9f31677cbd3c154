import { exitStatus, isFaultCode } from "../../shared/fault/codes.ts";
import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime, toWords } from "../../shared/terminal/json.ts";
import { type ReadNodeStatus, readNodeStatus } from "../config/status-file.ts";
import { findIdentity, type NodeIdentity } from "../pairing/identity.ts";
import { jobsToLines, jobToJson, openJobsHere } from "./jobs.ts";

/** `node status`: the link's state with since, reason and next step; works with the agent stopped. */
export const status: CommandModule = {
  words: "node status",
  summary: "the link of this machine: state, since, reason, next step",
  example: "fairlead node status --json",
  run: async (_, runtime) => {
    const identity = await findIdentity(runtime.home.nodeDir);
    const written = await readNodeStatus(runtime.home.nodeDir);
    if (!identity && !written) {
      throw new Fault("NOT_FOUND", "this machine has joined no gateway", { hint: "fairlead node join CODE" });
    }
    const shown = toShown(written);
    using running = await openJobsHere(runtime);
    const jobs = running.jobs.map(jobToJson);
    const json = { ...toJson(shown, identity), jobs };
    await runtime.output.result(json, () => [...toLines(shown, identity), ...jobsToLines(running.jobs)]);
    return shown.exit;
  },
};

interface Shown {
  readonly state: string;
  readonly exit: number;
  readonly nextStep: string;
  readonly reason: string;
  readonly written: ReadNodeStatus | undefined;
}

const offline = 5;

/** What is true now: a file whose writer is gone tells of the past, unless the identity ended, which lasts. */
function toShown(written: ReadNodeStatus | undefined): Shown {
  if (written && isFaultCode(written.code) && isIdentityCode(written.code) && written.state === "offline") {
    const { code, retryable, nextStep, reason } = written;
    return { state: code, exit: retryable ? offline : exitStatus(code), nextStep, reason, written };
  }
  if (written?.state === "waiting_for_approval") return toWaiting(written);
  if (!written?.isAlive) {
    return {
      state: "offline",
      exit: offline,
      nextStep: "fairlead node run",
      reason: "agent_not_running",
      written,
    };
  }
  const { state, nextStep, reason } = written;
  return { state, exit: state === "online" ? 0 : offline, nextStep, reason, written };
}

/** The gateway keeps the request whether or not the machine waits for the answer. */
function toWaiting(written: ReadNodeStatus): Shown {
  const { state, nextStep } = written;
  return {
    state,
    exit: exitStatus("ENROLMENT_PENDING"),
    nextStep: written.isAlive
      ? nextStep
      : `${nextStep}, and here fairlead node join CODE with the same code and options`,
    reason: written.isAlive ? written.reason : "join_not_running",
    written,
  };
}

const others: ReadonlySet<string> = new Set(["PIN_MISMATCH", "JOIN_CODE_INVALID"]);

function isIdentityCode(code: string): boolean {
  return code.startsWith("IDENTITY_") || code.startsWith("ENROLMENT_") || others.has(code);
}

function toJson(
  { state, reason, nextStep, written }: Shown,
  identity: NodeIdentity | undefined,
): { readonly [key: string]: JsonValue } {
  return {
    state,
    since: toTime(written?.sinceMs ?? 0),
    reason,
    code: written?.code || null,
    message: written?.message ?? "",
    details: written?.details ?? {},
    nextStep,
    requestId: written?.requestId ?? null,
    comparisonCode: written?.comparisonCode ?? null,
    attempts: written?.attempts ?? 0,
    lastAttemptAt: toTime(written?.lastAttemptMs ?? 0),
    nextAttemptAt: written?.isAlive ? toTime(written.nextAttemptMs) : null,
    nodeId: identity?.nodeId ?? null,
    alias: identity?.alias ?? null,
    gateways: identity?.addresses ?? [],
    pin: identity?.pin ?? null,
    trusts: identity?.pins ?? [],
    certificateExpiresAt: toTime(identity?.certificateExpiresAt ?? 0),
    renewal: toRenewal(written),
    address: written?.address ?? "",
    version: written?.version ?? "",
    installedVersion: written?.isAlive ? written.installedVersion || null : null,
    restartNeeded: written?.isAlive === true && written.installedVersion !== "",
    pid: written?.isAlive ? written.pid : null,
    configProblem: written?.configProblem || null,
  };
}

/** Null unless an agent that runs cannot renew the certificate. */
function toRenewal(written: ReadNodeStatus | undefined): JsonValue {
  if (!written?.isAlive || !written.renewal) return null;
  const { sinceMs, code, message, expiresMs } = written.renewal;
  return { since: toTime(sinceMs), code, message, certificateExpiresAt: toTime(expiresMs) };
}

function toLines(
  { state, reason, nextStep, written }: Shown,
  identity: NodeIdentity | undefined,
): readonly string[] {
  const since = toTime(written?.sinceMs ?? 0);
  const lines = [
    `state: ${isFaultCode(state) ? state : toWords(state)}${since === null ? "" : ` since ${since}`}`,
    `reason: ${toWords(reason)}`,
  ];
  if (written?.message) lines.push(`cause: ${written.message} (${written.code})`);
  if (written?.requestId !== undefined) lines.push(`request: ${written.requestId}`);
  if (written?.comparisonCode !== undefined) lines.push(`comparison code: ${written.comparisonCode}`);
  if (written?.isAlive && state !== "online" && state !== "waiting_for_approval") {
    const next = toTime(written.nextAttemptMs);
    lines.push(`attempts: ${written.attempts}${next === null ? "" : `, the next at ${next}`}`);
  }
  if (nextStep !== "") lines.push(`next step: ${nextStep}`);
  if (identity) {
    lines.push(`node: ${identity.alias} (${identity.nodeId})`, `gateway: ${identity.addresses.join(", ")}`);
    lines.push(`certificate until: ${toTime(identity.certificateExpiresAt) ?? "unknown"}`);
    if (written?.isAlive && written.renewal) {
      const { sinceMs, code, message } = written.renewal;
      lines.push(
        `renewal: fails since ${toTime(sinceMs) ?? "unknown"}: ${message} (${code}); it is tried again`,
      );
    }
  }
  if (written?.isAlive && written.installedVersion !== "")
    lines.push(`restart needed: ${written.installedVersion} is installed, ${written.version} runs`);
  if (written?.configProblem) lines.push(`configuration: ${written.configProblem}`);
  return lines;
}
