import path from "node:path";
import { watch } from "chokidar";
import { faultFromErrno } from "../fault/fault-from-errno.ts";
import { faultFromError } from "../fault/fault-from-error.ts";
import type { Fault } from "../fault/fault.ts";
import { raceSignal } from "../lifetime/clock.ts";

/** What `watchFolder` takes. */
export interface WatchFolderOptions {
  /** Absolute. */
  readonly dir: string;
  /**
   * Whether what lies at this path (relative, `/` between names, empty for the folder itself) is watched; of a folder
   * that is not, nothing below is. `isFolder` is undefined while that is not known.
   */
  readonly includes: (relative: string, isFolder: boolean | undefined) => boolean;
  /** Something below may have changed. */
  readonly onHint: () => void;
  /** The watcher misses something from now on; it is to be ended. */
  readonly onTrouble: (fault: Fault) => void;
  readonly signal: AbortSignal;
}

/**
 * Watches a small folder. What it says is a hint and no more: the kernel's queue loses events without a word, so whoever
 * watches compares as well. Resolves once everything that is there is watched; the caller disposes the watch.
 */
export async function watchFolder(options: WatchFolderOptions): Promise<AsyncDisposable> {
  const { dir, signal } = options;
  signal.throwIfAborted();
  const watcher = watch(dir, {
    ignoreInitial: true,
    followSymlinks: false,
    ignorePermissionErrors: true,
    ignored: (file, stats) => {
      const relative = path.relative(dir, file).split(path.sep).join("/");
      return relative !== "" && !options.includes(relative, stats?.isDirectory());
    },
  });
  const ready = Promise.withResolvers<void>();
  const fail = (error: unknown): void => {
    // A link that leads out is not followed, and a wall in the way of one is no loss.
    if (error instanceof Error && "code" in error && error.code === "ERR_ACCESS_DENIED") return;
    const fault = faultFromError(faultFromErrno(error, "the watch"));
    ready.reject(fault);
    options.onTrouble(fault);
  };
  watcher
    .on("all", () => options.onHint())
    .on("ready", () => ready.resolve())
    .on("error", fail);
  const dispose = async (): Promise<void> => {
    await watcher.close();
  };
  try {
    await raceSignal(ready.promise, signal);
  } catch (error) {
    await dispose();
    throw error;
  }
  return { [Symbol.asyncDispose]: dispose };
}
