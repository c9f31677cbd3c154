import { stat } from "node:fs/promises";
import { errnoOf } from "../fault/fault-from-errno.ts";
import { type Clock, systemClock } from "../lifetime/clock.ts";
import { Scope } from "../lifetime/scope.ts";

/** A file that stays as it is for so long has been written, in milliseconds. */
const settleMs = 50;

/** So often is looked whether it has; a file that never rests is read as it is. */
const settleLooks = 20;

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
      if (now === seen) continue;
      seen = await whenWritten(file, now, { clock, signal });
      await onChange();
    }
  });
  return { closed: scope.closed, [Symbol.asyncDispose]: () => scope.end() };
}

/** An editor that empties a file before it writes it is not to be read in between. */
async function whenWritten(
  file: string,
  first: string,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<string> {
  let seen = first;
  for (let look = 0; look < settleLooks; look += 1) {
    await clock.sleep(settleMs, { signal });
    const now = await fingerprint(file);
    if (now === seen) break;
    seen = now;
  }
  return seen;
}

async function fingerprint(file: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join(":");
  } catch (error) {
    return errnoOf(error) ?? "unknown";
  }
}
