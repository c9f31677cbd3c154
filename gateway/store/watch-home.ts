import { stat } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";

/** How often is looked, in milliseconds. */
const lookEveryMs = 5_000;

/** What is watched. */
export interface WatchHomeOptions {
  /** The gateway's folder. */
  readonly dir: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Watches that the store is still the file that was opened: one that was removed or replaced goes on taking writes, and
 * all of them are lost. Throws `IO_ERROR` then; returns when the signal aborts.
 */
export async function watchHome({ dir, clock, signal }: WatchHomeOptions): Promise<void> {
  const file = join(dir, "state.db");
  const opened = await inodeOf(file);
  const isSame = (found: typeof opened): boolean => found === opened || found === "unreadable";
  for (;;) {
    try {
      await clock.sleep(lookEveryMs, { signal });
    } catch {
      return;
    }
    if (isSame(await inodeOf(file))) continue;
    throw new Fault("IO_ERROR", "state.db was removed or replaced while the gateway ran: it ends", {
      hint: "put the state back with fairlead gateway restore FILE, then: fairlead gateway run",
      details: { path: "state.db" },
    });
  }
}

/** Undefined when there is none; a disk that does not answer is no reason to end. */
async function inodeOf(file: string): Promise<number | "unreadable" | undefined> {
  try {
    return (await stat(file)).ino;
  } catch (error) {
    return errnoOf(error) === "ENOENT" ? undefined : "unreadable";
  }
}
