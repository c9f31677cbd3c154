import { utimesSync } from "node:fs";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import { isFault } from "../../fault/fault.ts";
import type { FolderTime } from "../folder-time.ts";
import type { OperationOptions } from "../root-handle.ts";
import type { RootContext } from "./context.ts";
import { toSeconds } from "./file-times.ts";
import { createPause } from "./pause.ts";
import { forCanonical, forChange, openFolderAt } from "./place.ts";

/** `RootHandle.setFolderTimes`. */
export async function setFolderTimes(
  context: RootContext,
  times: readonly FolderTime[],
  options: OperationOptions,
): Promise<void> {
  const pause = createPause(context.signal);
  for (const time of times) {
    if (pause.isDue()) await pause.take();
    trySetTime(context, time, options);
  }
}

function trySetTime(context: RootContext, { path, mtimeNs }: FolderTime, options: OperationOptions): void {
  try {
    using opened = openFolderAt(forChange(forCanonical(context.start)), path);
    options.check?.(opened.canonicalPath);
    const seconds = toSeconds(mtimeNs);
    utimesSync(opened.folder.path, seconds, seconds);
  } catch (error) {
    // All that is in it arrived: the time alone is no reason to call it failed.
    if (!isFault(error) && errnoOf(error) === undefined) throw error;
  }
}
