import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../shared/lifetime/clock.ts";
import { findProcesses } from "./find-processes.ts";

const byItselfMs = 5_000;
const atSignalMs = 10_000;

/**
 * Ends the supervisors of a node's jobs, which outlive its agent as long as a job runs; fails when one is there without a
 * job, or does not end when it is told to.
 */
export async function endSupervisors(home: string): Promise<void> {
  if (process.platform !== "linux") return;
  const jobsDir = join(home, "node", "jobs");
  const isIdle = !(await hasRunningJob(jobsDir));
  if (!isIdle) for (const pid of findProcesses(jobsDir)) signal(pid, "SIGTERM");
  const giveUpAt = systemClock.now() + (isIdle ? byItselfMs : atSignalMs);
  for (let left = findProcesses(jobsDir); left.length > 0; left = findProcesses(jobsDir)) {
    if (systemClock.now() >= giveUpAt) {
      for (const pid of left) signal(pid, "SIGKILL");
      throw new Error(`supervisors of jobs were left behind: ${left.join(", ")}`);
    }
    await systemClock.sleep(20);
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch {
    // Gone meanwhile.
  }
}

async function hasRunningJob(jobsDir: string): Promise<boolean> {
  const names = await readdir(jobsDir, { recursive: true }).catch(() => []);
  const ended = new Set(names.filter((name) => name.endsWith("exit.json")).map((name) => name.slice(0, 32)));
  return names.some((name) => name.endsWith("job.json") && !ended.has(name.slice(0, 32)));
}
