import type { FaultCode } from "../../shared/fault/codes.ts";
import type { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";

/** Joins of one address that were refused for one reason. */
export interface RefusedJoin {
  readonly address: string;
  readonly code: FaultCode;
  /** Why, as a `snake_case` word. */
  readonly reason: string;
  readonly count: number;
  /** In milliseconds since 1970. */
  readonly firstSeenAt: number;
  /** In milliseconds since 1970. */
  readonly lastSeenAt: number;
}

/** What was refused since the gateway started: enough to say why a machine does not come in. */
export interface RefusedJoins {
  /** Counts one; a fault that is no refusal of this machine is passed over. */
  count(address: string, fault: Fault): void;
  /** Newest first. */
  list(): readonly RefusedJoin[];
}

/** Most entries; the one seen longest ago gives way. */
const maxEntries = 1_000;

// What waits, what the gateway got wrong and what the caller left is no refusal.
const passedOver: ReadonlySet<FaultCode> = new Set([
  "ENROLMENT_PENDING",
  "CANCELLED",
  "DEADLINE_EXCEEDED",
  "CONFLICT",
  "INTERNAL",
  "IO_ERROR",
  "DISK_FULL",
  "GATEWAY_UNREACHABLE",
  "INTEGRITY_FAILURE",
]);

/** Begins empty. */
export function createRefusedJoins(clock: Clock): RefusedJoins {
  const entries = new Map<string, RefusedJoin>();
  return {
    count: (address, fault) => {
      if (passedOver.has(fault.code)) return;
      const { code } = fault;
      const reason = reasonOf(fault);
      const key = `${address} ${code} ${reason}`;
      const now = clock.now();
      const before = entries.get(key);
      // Put at the end, so that the first is always the one seen longest ago.
      entries.delete(key);
      const { count = 0, firstSeenAt = now } = before ?? {};
      entries.set(key, { address, code, reason, count: count + 1, firstSeenAt, lastSeenAt: now });
      const [oldest] = entries.keys();
      if (entries.size > maxEntries && oldest !== undefined) entries.delete(oldest);
    },
    list: () => [...entries.values()].toReversed(),
  };
}

function reasonOf({ code, details }: Fault): string {
  const { reason } = details;
  return typeof reason === "string" ? reason : code.toLowerCase();
}
