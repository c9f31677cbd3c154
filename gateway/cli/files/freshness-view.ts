import type { JsonValue } from "../../../shared/fault/fault.ts";
import type { WatchLimit, WorkspaceFreshness } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { toTime, toWords } from "../../../shared/terminal/json.ts";
import { faultToJson } from "../fault-to-json.ts";

/** How fresh what is known of a workspace is, as `--json` shows it; null when its node did not say. */
export function freshnessToJson(freshness: WorkspaceFreshness | undefined): JsonValue {
  if (!freshness) return null;
  const { watch, lastEventMs, lastScanMs, folders, coveredFolders, fault, limit } = freshness;
  return {
    watch,
    lastEventAt: lastEventMs === 0n ? null : toTime(lastEventMs),
    lastScanAt: lastScanMs === 0n ? null : toTime(lastScanMs),
    folders: Number(folders),
    coveredFolders: Number(coveredFolders),
    error: faultToJson(fault),
    watchLimit: limitToJson(limit),
  };
}

/** The kernel's limit of watches as `--json` shows it; null while it is far. */
export function limitToJson(limit: WatchLimit | undefined): JsonValue {
  if (!limit) return null;
  return {
    limit: Number(limit.limit),
    used: Number(limit.used),
    setting: limit.setting,
    reached: limit.reached,
    nextStep: nextStep(limit),
  };
}

/** The watch of a workspace in a few words. */
export function watchWords(freshness: WorkspaceFreshness | undefined): string {
  if (!freshness) return "";
  const { watch, folders, coveredFolders } = freshness;
  if (watch === "off" || watch === "starting") return watch;
  return `${toWords(watch)} (${coveredFolders} of ${folders} folders)`;
}

/** A line about the kernel's limit on a node, or none while it is far. */
export function limitNote(node: string, limit: WatchLimit | undefined): string | undefined {
  if (!limit) return undefined;
  const what = limit.reached ? "is reached" : `is near (${limit.used} used)`;
  return `the limit of ${limit.limit} watched folders on ${node} ${what}; there: ${nextStep(limit)}`;
}

/** Twice the limit, and no less than what most machines have by now. */
function nextStep({ setting, limit }: WatchLimit): string {
  return `sysctl ${setting}=${Math.max(524_288, Number(limit) * 2)}`;
}
