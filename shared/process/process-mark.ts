import { readFileSync } from "node:fs";

/** Names one process for good: its id, and when it began as the kernel counts, which tells it from a later one. */
export interface ProcessMark {
  readonly pid: number;
  /** Empty where the platform does not say. */
  readonly began: string;
}

/** The mark of this process. */
export function ownProcessMark(): ProcessMark {
  return processMark(process.pid);
}

/** The mark of a process that runs. */
export function processMark(pid: number): ProcessMark {
  return { pid, began: beginningOf(pid) };
}

/** Whether the very process still runs; a later one with the same id is another. */
export function isProcessAlive(mark: ProcessMark): boolean {
  return isRunning(mark.pid) && beginningOf(mark.pid) === mark.began;
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // A process of another user is there all the same.
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}

function beginningOf(pid: number): string {
  if (process.platform !== "linux") return "";
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in brackets may hold anything; fields count from behind it.
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  } catch {
    return "";
  }
}
