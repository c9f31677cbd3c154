import { expect } from "vitest";
import type { Delivery, SharedWatch } from "../../../node-agent/workspace/shared-watch.ts";
import { isFault } from "../../../shared/fault/fault.ts";
import { Scope } from "../../../shared/lifetime/scope.ts";

/** What a subscriber has got so far. Disposing leaves the watch. */
export interface FollowedWatch extends AsyncDisposable {
  readonly events: readonly Delivery[];
  /** Waits until a barrier was passed: every event of what happened before has come then. */
  settle(): Promise<void>;
  /** Waits for an event of this kind, of all that came so far. */
  seen(kind: Delivery["kind"]): Promise<void>;
  /** The events about entries as `kind path`, since the last time. */
  take(): readonly string[];
}

/** Subscribes, and collects what comes. */
export function followWatch(watch: SharedWatch, since = ""): FollowedWatch {
  const scope = new Scope("a subscriber");
  const events: Delivery[] = [];
  let taken = 0;
  let barriers = 0;
  scope.spawn("follow", async (signal) => {
    for await (const event of watch.subscribe(since, signal)) events.push(event);
  });
  return {
    events,
    settle: async () => {
      const token = String((barriers += 1));
      let cursor: unknown;
      await expect
        .poll(async () => (cursor = await watch.barrier(token, scope.signal)), { timeout: 10_000 })
        .not.toSatisfy(isFault);
      await expect
        .poll(() => events.some((event) => event.cursor === cursor), { timeout: 10_000 })
        .toBe(true);
    },
    seen: async (kind) => {
      await expect.poll(() => events.map((event) => event.kind), { timeout: 10_000 }).toContain(kind);
    },
    take: () => {
      const fresh = events.slice(taken);
      taken = events.length;
      return fresh.flatMap((event) => ("path" in event ? [`${event.kind} ${event.path}`] : []));
    },
    [Symbol.asyncDispose]: () => scope.end(),
  };
}
