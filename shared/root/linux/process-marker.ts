import { readFileSync, readlinkSync } from "node:fs";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import type { StageMarker } from "../staged-name.ts";

/** The marker of this process. Without procfs its id alone tells it from others. */
export function readOwnMarker(): StageMarker {
  try {
    return readMarker();
  } catch {
    return { boot: "00000000", namespace: "0", pid: process.pid, startTicks: "0" };
  }
}

function readMarker(): StageMarker {
  const boot = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").slice(0, 8);
  const namespace = /\d+/.exec(readlinkSync("/proc/self/ns/pid"))?.[0] ?? "0";
  return { boot, namespace, pid: process.pid, startTicks: readStat("self")?.startTicks ?? "0" };
}

/** Whether the process of `marker` is gone; undefined when this process cannot know (another boot, or hidden from it). */
export function isGone(marker: StageMarker, own: StageMarker): boolean | undefined {
  if (marker.boot !== own.boot || marker.namespace !== own.namespace) return undefined;
  const stat = readStat(marker.pid);
  if (stat) return stat.hasEnded || stat.startTicks !== marker.startTicks;
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

interface ProcessStat {
  /** It runs no more, though nobody has asked how it ended: states `Z` and `X`. */
  readonly hasEnded: boolean;
  readonly startTicks: string | undefined;
}

/** Fields 3 and 22 of `stat`; the name of the program before them may itself hold blanks and brackets. */
function readStat(pid: number | "self"): ProcessStat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { hasEnded: /^[ZXx]$/.test(fields[0] ?? ""), startTicks: fields[19] };
  } catch {
    return undefined;
  }
}
