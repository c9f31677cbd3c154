import { X509Certificate } from "node:crypto";
import type { FaultCode } from "../../shared/fault/codes.ts";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import type { Fault } from "../../shared/fault/fault.ts";
import { createCertificateRequest } from "../../shared/identity/keys.ts";
import { createBackoff } from "../../shared/lifetime/backoff.ts";
import { startDeadline, systemClock, type Clock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import { replaceCertificate, type NodeIdentity } from "./identity.ts";

/**
 * Keeps a node's certificate young: renews it once it has lived two thirds of its time and up to five sevenths, at a
 * random point between, over whatever connection `renew` uses.
 *
 *     waiting ── the time has come ──▶ renewing ── done ──▶ waiting
 *                                         │ ▲
 *                                  failed ▼ │ full jitter
 *                                       failing ── an end that only a person can mend ──▶ ended
 */
export type RenewalState =
  | { readonly kind: "waiting"; readonly renewAt: number }
  | { readonly kind: "failing"; readonly since: number; readonly fault: Fault; readonly expiresAt: number }
  | { readonly kind: "ended"; readonly fault: Fault };

/** What `startRenewal` takes. */
export interface RenewalOptions {
  /** The node's folder. */
  readonly dir: string;
  readonly identity: NodeIdentity;
  /** Hands the request (PKCS#10, DER) to the gateway and gives the certificate (DER) back. */
  readonly renew: (request: Uint8Array, signal: AbortSignal) => Promise<{ readonly certificate: Uint8Array }>;
  /** Gets the identity with its new certificate, which is on the disk then. */
  readonly onRenewed: (identity: NodeIdentity) => void;
  /** Hears of each change of state. */
  readonly onState?: (state: RenewalState) => void;
  readonly clock?: Clock;
  /** A number in [0, 1); `Math.random` by default. */
  readonly random?: () => number;
}

/** A renewal that runs. Disposing it stops it; a request that is under way is given up. */
export interface Renewal extends AsyncDisposable {
  /** Where it stands. */
  status(): RenewalState;
}

// A timer does not count the time that a machine sleeps, so the clock is looked at now and then.
const longestSleepMs = 10 * 60_000;
const attemptTimeoutMs = 30_000;
const finalCodes: ReadonlySet<FaultCode> = new Set(["IDENTITY_REVOKED", "IDENTITY_UNKNOWN"]);

/** When a certificate is to be renewed, in milliseconds since 1970. `random` is in [0, 1). */
export function renewalTime(identity: NodeIdentity, random: number): number {
  const lifeMs = identity.certificateExpiresAt - identity.certificateBeganAt;
  return identity.certificateBeganAt + lifeMs * (2 / 3 + random * (5 / 7 - 2 / 3));
}

/** Starts renewing. The caller disposes it. */
export function startRenewal(options: RenewalOptions): Renewal {
  const clock = options.clock ?? systemClock;
  const random = options.random ?? Math.random;
  const scope = new Scope("renewal");
  let state: RenewalState = { kind: "waiting", renewAt: renewalTime(options.identity, random()) };
  const become = (next: RenewalState): void => {
    state = next;
    options.onState?.(next);
  };

  scope.spawn("renew", async (signal) => {
    let identity = options.identity;
    while (state.kind === "waiting") {
      await sleepUntil(state.renewAt, clock, signal);
      const renewed = await renewAtLast({ ...options, identity, clock, random }, become, signal);
      if (!renewed) return;
      identity = renewed;
      become({ kind: "waiting", renewAt: renewalTime(identity, random()) });
    }
  });
  return { status: () => state, [Symbol.asyncDispose]: () => scope.end() };
}

async function sleepUntil(at: number, clock: Clock, signal: AbortSignal): Promise<void> {
  for (let leftMs = at - clock.now(); leftMs > 0; leftMs = at - clock.now()) {
    await clock.sleep(Math.min(leftMs, longestSleepMs), { signal });
  }
}

type Attempts = RenewalOptions & { readonly clock: Clock; readonly random: () => number };

/** Tries until it succeeds; undefined once it never will. */
async function renewAtLast(
  attempts: Attempts,
  become: (state: RenewalState) => void,
  signal: AbortSignal,
): Promise<NodeIdentity | undefined> {
  const { clock, random, identity } = attempts;
  const backoff = createBackoff({ firstMs: 1_000, maxMs: 300_000, random });
  const since = clock.now();
  for (;;) {
    try {
      return await renewOnce(attempts, signal);
    } catch (error) {
      signal.throwIfAborted();
      const fault = faultFromError(error);
      if (finalCodes.has(fault.code)) {
        become({ kind: "ended", fault });
        return undefined;
      }
      become({ kind: "failing", since, fault, expiresAt: identity.certificateExpiresAt });
    }
    await clock.sleep(backoff.next(), { signal });
  }
}

async function renewOnce(attempts: Attempts, signal: AbortSignal): Promise<NodeIdentity> {
  const { clock, dir, identity } = attempts;
  using deadline = startDeadline({ timeoutMs: attemptTimeoutMs, signal, clock });
  const request = await createCertificateRequest(identity.keyPem);
  const { certificate } = await attempts.renew(request, deadline.signal);
  const renewed = await replaceCertificate(dir, identity, new X509Certificate(certificate).toString());
  attempts.onRenewed(renewed);
  return renewed;
}
