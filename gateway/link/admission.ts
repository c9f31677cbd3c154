import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";

/** How many hellos are judged. */
export interface AdmissionSettings {
  /** In the long run. */
  readonly perSecond: number;
  /** At once. */
  readonly burstCount: number;
}

/** A rate, and four seconds of it at once: a fleet that comes back does not come evenly. */
export function admissionOf(perSecond: number): AdmissionSettings {
  return { perSecond, burstCount: 4 * perSecond };
}

/** What one process can take beside its work. */
export const defaultAdmission: AdmissionSettings = admissionOf(100);

/** Lets hellos in; `RATE_LIMITED` with `details.retryAfterMs` beyond the rate, later for each one that is refused. */
export function createAdmission({ perSecond, burstCount }: AdmissionSettings, clock: Clock): () => void {
  let tokens = burstCount;
  let promised = 0;
  let countedAt = clock.now();
  return () => {
    const now = clock.now();
    const gained = Math.max(0, ((now - countedAt) / 1000) * perSecond);
    countedAt = now;
    tokens = Math.min(burstCount, tokens + gained);
    promised = Math.max(0, promised - gained);
    if (tokens >= 1) {
      tokens -= 1;
      return;
    }
    promised += 1;
    const retryAfterMs = Math.ceil((promised / perSecond) * 1000);
    throw new Fault("RATE_LIMITED", `more than ${perSecond} nodes a second want to link`, {
      details: { retryAfterMs },
    });
  };
}
