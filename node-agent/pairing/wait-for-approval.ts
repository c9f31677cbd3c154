import type { FaultCode } from "../../shared/fault/codes.ts";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { comparisonCode } from "../../shared/identity/comparison-code.ts";
import type { Pin } from "../../shared/identity/pin.ts";
import { createBackoff } from "../../shared/lifetime/backoff.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";

/** How the wait for an administrator goes. */
export interface ApprovalWait {
  /** The request that the machine waits under. */
  readonly requestId: string;
  /** What the gateway shows too, made here from this machine's own keys. */
  readonly comparisonCode: string;
  /** What an administrator runs to end the wait. */
  readonly command: string;
  /** When the machine first asked, in milliseconds since 1970. */
  readonly askedAt: number;
  /** When the request ends undecided, in milliseconds since 1970. */
  readonly expiresAt: number;
  /** Why the gateway cannot be asked at the moment; undefined: it can. */
  readonly fault: Fault | undefined;
}

/** What `waitForApproval` takes. */
export interface ApprovalWaitOptions<T> {
  /** Asks the gateway, which may keep the call for `waitMs`. */
  readonly ask: (waitMs: number) => Promise<T>;
  /** The pin of the gateway's authority. */
  readonly gateway: Pin;
  /** The pin of this machine's key. */
  readonly machine: Pin;
  readonly clock: Clock;
  /** Hears of each change: the first wait, another request, the gateway out of reach and back. */
  readonly onWait: ((wait: ApprovalWait) => Promise<void>) | undefined;
  readonly signal: AbortSignal | undefined;
}

// Below the time after which devices on the way forget a connection that says nothing.
const holdMs = 25_000;
const shortestRoundMs = 1_000;
const reconnect = { firstMs: 500, maxMs: 10_000 };
const makeRoom = { firstMs: 60_000, maxMs: 600_000 };

// While a request waits, these say nothing about it: the gateway may be back, or have room, later.
const passing: ReadonlySet<FaultCode> = new Set([
  "GATEWAY_UNREACHABLE",
  "DEADLINE_EXCEEDED",
  "PIN_MISMATCH",
  "LIMIT_REACHED",
  "RATE_LIMITED",
]);

/**
 * Asks until the answer is not `ENROLMENT_PENDING`; once it was, also over a gateway that is away for a while. Every
 * other fault ends it. A gateway that is not there at the first try is told at once.
 */
export async function waitForApproval<T>(options: ApprovalWaitOptions<T>): Promise<T> {
  const { ask, clock, signal } = options;
  const waits = createWaits();
  let told: ApprovalWait | undefined;
  const become = async (next: ApprovalWait): Promise<void> => {
    const isNews = told?.requestId !== next.requestId || told.fault?.code !== next.fault?.code;
    told = next;
    if (isNews) await options.onWait?.(next);
  };
  for (;;) {
    const beganAt = clock.now();
    try {
      return await ask(told === undefined ? 0 : holdMs);
    } catch (error) {
      signal?.throwIfAborted();
      const fault = faultFromError(error);
      const isFirst = told === undefined;
      if (fault.code === "ENROLMENT_PENDING") {
        waits.reset();
        await become(toWait(fault, options));
        // The first answer comes at once; later ones are kept, unless another process asks under the same key.
        const restMs = isFirst ? 0 : beganAt + shortestRoundMs - clock.now();
        if (restMs > 0) await clock.sleep(restMs, signal ? { signal } : {});
        continue;
      }
      if (!told || !passing.has(fault.code)) throw fault;
      await become({ ...told, fault });
      await clock.sleep(waits.after(fault), signal ? { signal } : {});
    }
  }
}

interface Waits {
  /** How long to wait after a fault, in milliseconds. */
  after(fault: Fault): number;
  reset(): void;
}

function createWaits(): Waits {
  const soon = createBackoff(reconnect);
  const late = createBackoff(makeRoom);
  return {
    after: ({ code, details }) => {
      const { retryAfterMs } = details;
      if (code === "RATE_LIMITED" && typeof retryAfterMs === "number") return retryAfterMs + soon.next();
      // Coming back at once would push out those that made this one give way.
      return code === "LIMIT_REACHED" ? makeRoom.firstMs / 2 + late.next() : soon.next();
    },
    reset: () => {
      soon.reset();
      late.reset();
    },
  };
}

function toWait(fault: Fault, keys: { readonly gateway: Pin; readonly machine: Pin }): ApprovalWait {
  const { requestId, askedAt, expiresAt } = fault.details;
  if (typeof requestId !== "string" || !/^[0-9a-f]{1,64}$/.test(requestId)) {
    throw new Fault("INTERNAL", "the gateway lets this machine wait and names no request");
  }
  return {
    requestId,
    comparisonCode: comparisonCode({ ...keys, requestId }),
    command: `fairlead nodes approve ${requestId}`,
    askedAt: typeof askedAt === "number" ? askedAt : 0,
    expiresAt: typeof expiresAt === "number" ? expiresAt : 0,
    fault: undefined,
  };
}
