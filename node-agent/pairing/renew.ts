import type { FaultCode } from "../../shared/fault/codes.ts";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import type { Fault } from "../../shared/fault/fault.ts";
import { createCertificateRequest } from "../../shared/identity/keys.ts";
import { createBackoff } from "../../shared/lifetime/backoff.ts";
import { startDeadline, systemClock, type Clock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import type { HeldIdentity } from "./held-identity.ts";
import type { NodeIdentity } from "./identity.ts";

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
  /** Whose certificate it is; others may renew it too. */
  readonly held: HeldIdentity;
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
  /** Renews soon, at a random moment within a twentieth of a certificate's life and ten minutes. */
  hasten(): void;
}

// A timer does not count the time that a machine sleeps, so the clock is looked at now and then.
const longestSleepMs = 10 * 60_000;
const attemptTimeoutMs = 30_000;
const longestHastyMs = 10 * 60_000;
const finalCodes: ReadonlySet<FaultCode> = new Set(["IDENTITY_REVOKED", "IDENTITY_UNKNOWN"]);

/** When a certificate is to be renewed, in milliseconds since 1970. `random` is in [0, 1). */
export function renewalTime(identity: NodeIdentity, random: number): number {
  const lifeMs = identity.certificateExpiresAt - identity.certificateBeganAt;
  return identity.certificateBeganAt + lifeMs * (2 / 3 + random * (5 / 7 - 2 / 3));
}

/** Starts renewing. The caller disposes it. */
export function startRenewal(options: RenewalOptions): Renewal {
  const { held } = options;
  const clock = options.clock ?? systemClock;
  const random = options.random ?? Math.random;
  const scope = new Scope("renewal");
  let state: RenewalState = { kind: "waiting", renewAt: renewalTime(held.current, random()) };
  let wake = new AbortController();
  const become = (next: RenewalState): void => {
    state = next;
    options.onState?.(next);
  };
  const hasten = (): void => {
    if (state.kind !== "waiting") return;
    const { certificateBeganAt, certificateExpiresAt } = held.current;
    const withinMs = Math.min(longestHastyMs, (certificateExpiresAt - certificateBeganAt) / 20);
    state = { kind: "waiting", renewAt: Math.min(state.renewAt, clock.now() + random() * withinMs) };
    wake.abort();
  };

  scope.spawn("renew", async (signal) => {
    while (state.kind === "waiting") {
      const identity = held.current;
      await waitUntilDue(state.renewAt, {
        held,
        clock,
        signal: AbortSignal.any([signal, wake.signal]),
      }).catch(() => signal.throwIfAborted());
      if (wake.signal.aborted) {
        wake = new AbortController();
        continue;
      }
      const attempts = { ...options, identity, clock, random };
      const goesOn = held.current !== identity || (await renewAtLast(attempts, become, signal));
      if (!goesOn) return;
      become({ kind: "waiting", renewAt: renewalTime(held.current, random()) });
    }
  });
  return { status: () => state, hasten, [Symbol.asyncDispose]: () => scope.end() };
}

interface Waiting {
  readonly held: HeldIdentity;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Returns when it is time, or when somebody else has renewed the certificate. */
async function waitUntilDue(at: number, { held, clock, signal }: Waiting): Promise<void> {
  const identity = held.current;
  for (let leftMs = at - clock.now(); leftMs > 0 && held.current === identity; leftMs = at - clock.now()) {
    await clock.sleep(Math.min(leftMs, longestSleepMs), { signal });
  }
}

type Attempts = RenewalOptions & {
  /** The one that is to be renewed. */
  readonly identity: NodeIdentity;
  readonly clock: Clock;
  readonly random: () => number;
};

/** Tries until it succeeds, here or elsewhere; false once it never will. */
async function renewAtLast(
  attempts: Attempts,
  become: (state: RenewalState) => void,
  signal: AbortSignal,
): Promise<boolean> {
  const { clock, random, identity, held } = attempts;
  const backoff = createBackoff({ firstMs: 1_000, maxMs: 300_000, random });
  const since = clock.now();
  while (held.current === identity) {
    try {
      await renewOnce(attempts, signal);
      return true;
    } catch (error) {
      signal.throwIfAborted();
      const fault = faultFromError(error);
      if (isFinal(fault)) {
        become({ kind: "ended", fault });
        return false;
      }
      become({ kind: "failing", since, fault, expiresAt: identity.certificateExpiresAt });
    }
    await clock.sleep(backoff.next(), { signal });
  }
  return true;
}

function isFinal({ code, retryable }: Fault): boolean {
  return finalCodes.has(code) || (code === "IDENTITY_EXPIRED" && !retryable);
}

async function renewOnce(attempts: Attempts, signal: AbortSignal): Promise<void> {
  const { clock, held, identity } = attempts;
  using deadline = startDeadline({ timeoutMs: attemptTimeoutMs, signal, clock });
  const request = await createCertificateRequest(identity.keyPem);
  const { certificate } = await attempts.renew(request, deadline.signal);
  attempts.onRenewed(await held.renewed(certificate));
}
