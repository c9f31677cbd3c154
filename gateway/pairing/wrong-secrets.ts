import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";

/** Most wrong secrets from one address within a minute, when nothing else is said. */
const defaultWrongSecrets = 100;
const windowMs = 60_000;
const maxAddresses = 10_000;

/** Counts wrong secrets by address. */
export interface WrongSecrets {
  /** `RATE_LIMITED` with `details.retryAfterMs` while the address has had its hundred within the minute. */
  check(address: string): void;
  /** Counts one. */
  count(address: string): void;
}

interface Window {
  readonly beganAt: number;
  readonly count: number;
}

/** Counters that begin empty. They hold at most 10,000 addresses; the one counted longest ago gives way. */
export function createWrongSecrets(
  clock: Clock,
  maxWrongSecrets: number = defaultWrongSecrets,
): WrongSecrets {
  const windows = new Map<string, Window>();
  const current = (address: string): Window => {
    const found = windows.get(address);
    return found && clock.now() - found.beganAt < windowMs ? found : { beganAt: clock.now(), count: 0 };
  };
  return {
    check: (address) => {
      const { beganAt, count } = current(address);
      if (count < maxWrongSecrets) return;
      const retryAfterMs = Math.max(1, beganAt + windowMs - clock.now());
      throw new Fault("RATE_LIMITED", `${count} wrong join codes came from this address within a minute`, {
        details: { retryAfterMs, limit: maxWrongSecrets, actual: count },
        hint: "wait a minute, then use a code from fairlead invite",
      });
    },
    count: (address) => {
      const { beganAt, count } = current(address);
      // Put at the end, so that the first is always the one counted longest ago.
      windows.delete(address);
      windows.set(address, { beganAt, count: count + 1 });
      if (windows.size <= maxAddresses) return;
      const [oldest] = windows.keys();
      if (oldest !== undefined) windows.delete(oldest);
    },
  };
}
