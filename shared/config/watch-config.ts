import { stat } from "node:fs/promises";
import { errnoOf } from "../fault/fault-from-errno.ts";
import { type Clock, systemClock } from "../lifetime/clock.ts";
import { Scope } from "../lifetime/scope.ts";

/** How a file is watched. */
export interface WatchConfigOptions {
  /** Where time comes from; the machine's clock by default. */
  readonly clock?: Clock;
  /** How often it is looked at, in milliseconds; 500 by default. */
  readonly intervalMs?: number;
}

/**
 * Calls `onChange` after each change of a file (also when it appears or goes), one call at a time, until it is disposed.
 * Looks at size, times and inode on a timer: kernel events for one small file are not worth their gaps. A failure of
 * `onChange` ends the watch and is the reason of `closed`.
 */
export interface ConfigWatch extends AsyncDisposable {
  readonly closed: Promise<unknown>;
}

/** Starts watching; the present state of the file is where it starts from. */
export async function watchConfig(
  file: string,
  onChange: () => Promise<void>,
  options: WatchConfigOptions = {},
): Promise<ConfigWatch> {
  const clock = options.clock ?? systemClock;
  let seen = await fingerprint(file);
  const scope = new Scope(`watch of ${file}`);
  scope.spawn("look", async (signal) => {
    while (!signal.aborted) {
      await clock.sleep(options.intervalMs ?? 500, { signal });
      const now = await fingerprint(file);
      if (now === seen || signal.aborted) continue;
      seen = now;
      await onChange();
    }
  });
  return { closed: scope.closed, [Symbol.asyncDispose]: () => scope.end() };
}

async function fingerprint(file: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(":");
  } catch (error) {
    return errnoOf(error) ?? "unknown";
  }
}
