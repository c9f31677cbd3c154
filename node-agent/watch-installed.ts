import { installedVersion } from "../shared/config/package-root.ts";
import type { Clock } from "../shared/lifetime/clock.ts";

/** How often the installed version is looked at, in milliseconds. */
const lookEveryMs = 5_000;

/** What watching the installed version needs. */
export interface WatchInstalledOptions {
  /** The version that runs. */
  readonly running: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Another version is installed now; empty: the running one. */
  readonly onChange: (version: string) => void;
}

/** Looks which version is installed until the signal aborts: an upgrade leaves the agent that runs as it is. */
export async function watchInstalled({
  running,
  clock,
  signal,
  onChange,
}: WatchInstalledOptions): Promise<void> {
  for (let last = ""; !signal.aborted;) {
    const found = installedVersion();
    // While an upgrade is under way there may be none.
    const shown = found === undefined || found === running ? "" : found;
    if (shown !== last) onChange(shown);
    last = shown;
    await clock.sleep(lookEveryMs, { signal }).catch(() => undefined);
  }
}
