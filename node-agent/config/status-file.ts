import path from "node:path";
import { z } from "zod";
import { isFaultCode } from "../../shared/fault/codes.ts";
import type { JsonValue } from "../../shared/fault/fault.ts";
import { readPrivateFile, removePrivate, writePrivateFile } from "../../shared/identity/private-files.ts";
import { isProcessAlive, ownProcessMark } from "../../shared/process/process-mark.ts";

const states = [
  "waiting_for_approval",
  "connecting",
  "online",
  "reconnecting",
  "offline",
  "draining",
  "stopped",
] as const;

/** What a running agent, or a join that waits, says of itself in `status.json`. */
export interface NodeStatus {
  /** How the link is; or `waiting_for_approval`: a join waits for an administrator. */
  readonly state: (typeof states)[number];
  /** Since when, in milliseconds since 1970. */
  readonly sinceMs: number;
  /** A `snake_case` word. */
  readonly reason: string;
  /** The fault of the last attempt; empty when there was none. */
  readonly code: string;
  /** Its message. */
  readonly message: string;
  /** Its details, such as the pins of a mismatch or how far a clock is off. */
  readonly details: Readonly<Record<string, JsonValue>>;
  /** Whether it can pass by itself. */
  readonly retryable: boolean;
  /** The next command for a person; empty when nothing has to be done. */
  readonly nextStep: string;
  /** Attempts since the last link. */
  readonly attempts: number;
  /** When the last one began, in milliseconds since 1970; 0: none. */
  readonly lastAttemptMs: number;
  /** When the next one begins, in milliseconds since 1970; 0: none is planned. */
  readonly nextAttemptMs: number;
  /** The address of the present or last link. */
  readonly address: string;
  /** The agent's version. */
  readonly version: string;
  /** The version that is installed when another one runs; else empty. */
  readonly installedVersion: string;
  /** Mistakes in the configuration file that the agent does not follow; empty when it follows it. */
  readonly configProblem: string;
  /** The enrolment request that a join waits under. */
  readonly requestId?: string | undefined;
  /** What the gateway shows for it too. */
  readonly comparisonCode?: string | undefined;
  /** What that join does with the identity that is there. */
  readonly joinsAs?: "same_key" | "new_key" | undefined;
  /** Set while the certificate cannot be renewed. */
  readonly renewal?: RenewalProblem | undefined;
}

/** A renewal that fails and is tried again. */
export interface RenewalProblem {
  /** Since when, in milliseconds since 1970. */
  readonly sinceMs: number;
  readonly code: string;
  readonly message: string;
  /** When the certificate ends, in milliseconds since 1970. */
  readonly expiresMs: number;
}

/** A status file as it was read. */
export interface ReadNodeStatus extends NodeStatus {
  readonly pid: number;
  /** Whether the process that wrote it still runs. */
  readonly isAlive: boolean;
}

const time = z.number().int().min(0);

const statusSchema = z.object({
  pid: z.number().int().min(1),
  began: z.string(),
  state: z.enum(states),
  sinceMs: time,
  reason: z.string(),
  code: z.string().refine((code) => code === "" || isFaultCode(code)),
  message: z.string(),
  details: z.record(z.string(), z.json()).default({}),
  retryable: z.boolean(),
  nextStep: z.string(),
  attempts: time,
  lastAttemptMs: time,
  nextAttemptMs: time,
  address: z.string(),
  version: z.string(),
  configProblem: z.string(),
  installedVersion: z.string().default(""),
  requestId: z.string().optional(),
  comparisonCode: z.string().optional(),
  joinsAs: z.enum(["same_key", "new_key"]).optional(),
  renewal: z.object({ sinceMs: time, code: z.string(), message: z.string(), expiresMs: time }).optional(),
});

/** Writes the status of this process, whole. The agent calls it at each change, one call at a time. */
export async function writeNodeStatus(nodeDir: string, status: NodeStatus): Promise<void> {
  // Waits are drawn at random and fall between milliseconds.
  const times = {
    lastAttemptMs: Math.round(status.lastAttemptMs),
    nextAttemptMs: Math.round(status.nextAttemptMs),
  };
  const text = JSON.stringify({ ...status, ...times, ...ownProcessMark() });
  await writePrivateFile(statusFile(nodeDir), `${text}\n`);
}

/** Reads the status; undefined when nobody has ever written one, or what stands there is none. */
export async function readNodeStatus(nodeDir: string): Promise<ReadNodeStatus | undefined> {
  const file = await readPrivateFile(statusFile(nodeDir));
  if (!file) return undefined;
  let json: unknown;
  try {
    json = JSON.parse(file.text);
  } catch {
    return undefined;
  }
  const parsed = statusSchema.safeParse(json);
  if (!parsed.success) return undefined;
  const { began, ...status } = parsed.data;
  return { ...status, isAlive: isProcessAlive({ pid: status.pid, began }) };
}

/** Forgets what an agent of this home has said: it was another node's. */
export async function removeNodeStatus(nodeDir: string): Promise<void> {
  await removePrivate(statusFile(nodeDir));
}

function statusFile(nodeDir: string): string {
  return path.join(nodeDir, "status.json");
}
