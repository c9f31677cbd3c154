import { createHash } from "node:crypto";
import { closeSync, fdatasync, mkdirSync, openSync, renameSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { FaultCode } from "../../shared/fault/codes.ts";
import { Fault, type FaultDetails } from "../../shared/fault/fault.ts";
import type { ProcessMark } from "../../shared/process/process-mark.ts";

/** What is said of a job to people and to its caller. */
export interface JobAbout {
  /** The workspace that it runs in; the job ends with it. */
  readonly workspace: string;
  readonly sessionId: string;
  readonly agent: string;
  /** The command as people read it, cut where it is long. */
  readonly command: string;
  /** `/WORKSPACE/path`. */
  readonly cwd: string;
  /** Variables that the caller asked for and did not get. */
  readonly dropped: readonly string[];
}

/** A fault as it stands in a record. */
export interface FaultNote {
  readonly code: FaultCode;
  readonly message: string;
  readonly hint?: string | undefined;
  readonly retryable: boolean;
  readonly details: FaultDetails;
}

/** What is written down of a job before it runs; `process` as soon as there is one. */
export interface JobRecord {
  /** The id of the call that started it. */
  readonly id: string;
  readonly about: JobAbout;
  /** Stands in the environment of everything that it starts. */
  readonly marker: string;
  /** Who runs it. */
  readonly supervisor: ProcessMark;
  readonly process?: ProcessMark;
  /** Milliseconds since 1970. */
  readonly startedAt: number;
}

/** How a job ended. */
export interface JobExit {
  /** Its status; absent when a signal ended it, or nobody knows. */
  readonly exitCode?: number;
  readonly signal?: string;
  readonly timedOut: boolean;
  /** Why it was ended, or why nobody knows how it did; absent when it ended by itself or by its own time. */
  readonly fault?: FaultNote;
  readonly durationMs: number;
  /** Milliseconds since 1970. */
  readonly endedAt: number;
  /** Processes that could not be ended. */
  readonly unended: readonly number[];
  readonly stdoutBytes: number;
  readonly stderrBytes: number;
}

/** Off this thread: it is what takes its time. */
const sync = promisify(fdatasync);

const recordName = "job.json";
const exitName = "exit.json";

/** The folder of a job in that of all: a call's id may hold anything, and names a file only by its digest. */
export function jobFolder(jobsDir: string, id: string): string {
  return join(jobsDir, createHash("sha256").update(id).digest("hex").slice(0, 32));
}

/**
 * Makes the folder of a job with its record. Not synced: when the machine goes down, the job is gone with it. Small as they
 * are, records are written at once: a short command is not to wait for one thread after the other.
 */
export function writeRecord(folder: string, record: JobRecord): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const stage = join(folder, `${recordName}.new`);
  writeFileSync(stage, JSON.stringify(record), { mode: 0o600 });
  renameSync(stage, join(folder, recordName));
}

/** Writes down how a job ended, so that it lasts. */
export async function writeExit(folder: string, exit: JobExit): Promise<void> {
  const stage = join(folder, `${exitName}.new`);
  const file = openSync(stage, "w", 0o600);
  try {
    writeFileSync(file, JSON.stringify(exit));
    await sync(file);
  } finally {
    closeSync(file);
  }
  renameSync(stage, join(folder, exitName));
}

/** The record of a job; undefined when there is none that can be read. */
export async function readRecord(folder: string): Promise<JobRecord | undefined> {
  // Our own file in our own folder: what it holds is what `writeRecord` wrote.
  return (await readJson(join(folder, recordName))) as JobRecord | undefined;
}

/** How a job ended; undefined while it runs. */
export async function readExit(folder: string): Promise<JobExit | undefined> {
  return (await readJson(join(folder, exitName))) as JobExit | undefined;
}

async function readJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch {
    // Not there, or cut off by the end of the machine.
    return undefined;
  }
}

/** A fault for a record. */
export function toNote({ code, message, hint, retryable, details }: Fault): FaultNote {
  return { code, message, ...(hint === undefined ? {} : { hint }), retryable, details };
}

/** A fault from a record. */
export function fromNote({ code, message, hint, retryable, details }: FaultNote): Fault {
  return new Fault(code, message, { ...(hint === undefined ? {} : { hint }), retryable, details });
}
