import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Link } from "./link.ts";

// A timer does not count the time that a machine sleeps, so the clock is looked at now and then.
const longestSleepMs = 60_000;

/** Resolves true once the certificate of a link has ended, whatever renewals put that off to; false when the link ended first. */
export async function watchExpiry(link: Link, clock: Clock): Promise<boolean> {
  if (link.expiresAt === Infinity) return false;
  for (;;) {
    const leftMs = link.expiresAt - clock.now();
    if (leftMs <= 0) return !link.signal.aborted;
    try {
      await clock.sleep(Math.min(leftMs, longestSleepMs), { signal: link.signal });
    } catch {
      return false;
    }
  }
}

/** What a link ends with whose certificate was not renewed in time; its node renews and links again. */
export function expiredFault(alias: string, expiredAt: number): Fault {
  return new Fault(
    "IDENTITY_EXPIRED",
    `the certificate of ${alias} ended at ${new Date(expiredAt).toISOString()}`,
    { retryable: true, details: { node: alias, reason: "certificate_expired", expiredAt } },
  );
}
