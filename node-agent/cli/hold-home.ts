import { isFault } from "../../shared/fault/fault.ts";
import { makePrivateFolder } from "../../shared/identity/private-files.ts";
import { type HomeLock, lockHome } from "../../shared/process/home-lock.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";

/** Makes the node's folder and takes it for this process; `CONFLICT` names the process that has it. The caller disposes it. */
export async function holdHome(runtime: Pick<Runtime, "home">, program: string): Promise<HomeLock> {
  await makePrivateFolder(runtime.home.nodeDir);
  return lockHome(runtime.home.nodeDir, { program });
}

/** How long a running agent gets to end, in milliseconds. */
const endTimeoutMs = 15_000;

/** Like `holdHome`, but a running agent is asked to end (SIGTERM) and waited for. */
export async function takeHome(
  runtime: Pick<Runtime, "home" | "clock" | "signal">,
  program: string,
): Promise<HomeLock> {
  const { clock, signal } = runtime;
  const giveUpAt = clock.now() + endTimeoutMs;
  let asked: number | undefined;
  for (;;) {
    try {
      return await holdHome(runtime, program);
    } catch (error) {
      if (!isFault(error, "CONFLICT") || clock.now() >= giveUpAt) throw error;
      const { pid } = error.details;
      if (typeof pid === "number" && pid !== asked) askToEnd((asked = pid));
      await clock.sleep(100, { signal });
    }
  }
}

function askToEnd(pid: number): void {
  try {
    process.kill(pid, "SIGTERM");
  } catch {
    // It has ended by itself, or belongs to another user: then the lock says whether it is still there.
  }
}
