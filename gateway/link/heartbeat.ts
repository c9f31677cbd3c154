import { setImmediate } from "node:timers/promises";
import { Fault } from "../../shared/fault/fault.ts";
import type { Hello } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Link } from "./link.ts";

/** How often signs of life are asked for, and how long silence is borne. */
export interface HeartbeatSettings {
  readonly heartbeatMs: number;
  readonly deadAfterMs: number;
}

/** The heartbeat of the manual. */
export const defaultHeartbeat: HeartbeatSettings = { heartbeatMs: 10_000, deadAfterMs: 25_000 };

/** `INVALID_ARGUMENT` unless silence is borne for longer than the interval. */
export function checkHeartbeat({ heartbeatMs, deadAfterMs }: HeartbeatSettings): HeartbeatSettings {
  if (heartbeatMs > 0 && deadAfterMs > heartbeatMs) return { heartbeatMs, deadAfterMs };
  throw new Fault(
    "INVALID_ARGUMENT",
    `a dead-after time of ${deadAfterMs} ms is not more than the heartbeat's interval of ${heartbeatMs} ms`,
    { details: { field: "deadAfterMs" } },
  );
}

/** When an accepted node is asked for its first sign of life, and how long it may take, in milliseconds. */
const firstPingMs = 1_000;
const firstSignMs = 10_000;

/** The longest interval that a node may ask for, in milliseconds. */
const longestHeartbeatMs = 300_000;

/** The heartbeat of one link: slower where the way to the gateway bears no faster one. */
export function heartbeatFor(
  { heartbeatAtLeastMs }: Hello,
  { heartbeatMs, deadAfterMs }: HeartbeatSettings,
): HeartbeatSettings {
  const slower = Math.min(heartbeatAtLeastMs, longestHeartbeatMs) / heartbeatMs;
  if (slower <= 1) return { heartbeatMs, deadAfterMs };
  return { heartbeatMs: Math.round(heartbeatMs * slower), deadAfterMs: Math.round(deadAfterMs * slower) };
}

/**
 * Pings the node at each interval; resolves true once nothing was heard of it for too long, false when the link ended.
 * One that was never heard of since it was accepted is asked sooner and given less: the socket of a process that ended in
 * that moment may never tell it.
 */
export async function watchHeartbeat(
  link: Link,
  settings: HeartbeatSettings,
  clock: Clock,
): Promise<boolean> {
  const { heartbeatMs, deadAfterMs } = settings;
  const patienceMs = (): number => (link.wasHeard ? deadAfterMs : Math.min(deadAfterMs, firstSignMs));
  let pingAt = clock.now() + Math.min(heartbeatMs, firstPingMs);
  let sequence = 0n;
  for (;;) {
    const deadAt = link.lastSeenMs + patienceMs();
    try {
      await clock.sleep(Math.max(1, Math.min(pingAt, deadAt) - clock.now()), { signal: link.signal });
    } catch {
      return false;
    }
    // After a stall of this process what arrived meanwhile is read first: its own silence is not the peer's.
    if (clock.now() >= deadAt) await setImmediate();
    if (link.signal.aborted) return false;
    const now = clock.now();
    if (now >= link.lastSeenMs + patienceMs()) return true;
    if (now < pingAt) continue;
    pingAt = now + heartbeatMs;
    sequence += 1n;
    link.send({ case: "ping", value: { sequence } });
  }
}
