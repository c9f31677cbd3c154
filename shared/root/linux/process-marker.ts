import { readFileSync, readlinkSync } from "node:fs";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import type { StageMarker } from "../staged-name.ts";

/** The marker of this process. */
export function readOwnMarker(): StageMarker {
  const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").slice(0, 8);
  const namespace = /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "0";
  return { boot, namespace, pid: process.pid, startTicks: readStartTicks("self") ?? "0" };
}

/** Whether the process of `marker` is gone; undefined when this process cannot know (another boot, or hidden from it). */
export function isGone(marker: StageMarker, own: StageMarker): boolean | undefined {
  if (marker.boot !== own.boot || marker.namespace !== own.namespace) return undefined;
  const startTicks = readStartTicks(marker.pid);
  if (startTicks !== undefined) return startTicks !== marker.startTicks;
  return isThere(marker.pid) ? undefined : true;
}

/** Asked by a signal that does nothing: where other users' processes are hidden, it still tells that there is one. */
function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return errnoOf(error) !== "ESRCH";
  }
}

/** Field 22 of `stat`; the name of the program before it may itself hold blanks and brackets. */
function readStartTicks(pid: number | "self"): string | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    return text.slice(text.lastIndexOf(")") + 2).split(" ")[19];
  } catch {
    return undefined;
  }
}
