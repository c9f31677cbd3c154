import type { Clock } from "../../shared/lifetime/clock.ts";
import { getSetting, putSetting } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import type { CloneReport, Links, Presence } from "./links.ts";

/** What `keepPresences` stands on. */
export interface KeepPresencesOptions {
  readonly store: Pick<Store, "db">;
  readonly links: Pick<Links, "changes">;
  readonly clock: Clock;
  /** Ends the keeping. */
  readonly signal: AbortSignal;
}

const aliveKey = "link.alive";
/** How often it is written down that this process is there, in milliseconds. */
const aliveEveryMs = 30_000;

/**
 * Where every node stood when the process before this one ended. Of those that were linked nobody knows more than that
 * they were heard of until about then: they are offline, since then, because the gateway was started anew.
 */
export async function recallPresences(store: Pick<Store, "db">): Promise<ReadonlyMap<string, Presence>> {
  const alive = await getSetting(store.db, aliveKey);
  const aliveMs = typeof alive === "number" ? alive : 0;
  const rows = await store.db.selectFrom("presences").selectAll().execute();
  return new Map(
    rows.map((row) => {
      const wasLinked = row.state === "online" || row.state === "draining";
      const seenMs = wasLinked ? Math.max(row.seen_at, aliveMs) : row.seen_at;
      const standing: Pick<Presence, "state" | "reason" | "sinceMs"> =
        row.state === "offline" || row.state === "revoked"
          ? { state: row.state, reason: row.reason, sinceMs: row.since }
          : { state: "offline", reason: "gateway_restarted", sinceMs: seenMs };
      const { generation, address } = row;
      const presence: Presence = {
        nodeId: row.node_id,
        ...standing,
        generation,
        lastSeenMs: seenMs,
        address,
        hello: undefined,
        ...(row.clone_json === null ? {} : { clone: JSON.parse(row.clone_json) as CloneReport }),
      };
      return [row.node_id, presence];
    }),
  );
}

/** Keeps where every node stands, and that this process is there, until the signal ends it. */
export async function keepPresences({ store, links, clock, signal }: KeepPresencesOptions): Promise<void> {
  const touching = touch({ store, clock, signal });
  try {
    for await (const presence of links.changes({ signal })) await put(store, presence);
  } finally {
    await touching;
  }
}

async function touch({ store, clock, signal }: Omit<KeepPresencesOptions, "links">): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(aliveEveryMs, { signal }).catch(() => undefined);
    const now = clock.now();
    await putSetting(store.db, aliveKey, { value: now, now });
  }
}

async function put(store: Pick<Store, "db">, presence: Presence): Promise<void> {
  const { state, reason, generation, address } = presence;
  const row = {
    state,
    reason,
    generation,
    address,
    since: presence.sinceMs,
    seen_at: presence.lastSeenMs,
    clone_json: presence.clone ? JSON.stringify(presence.clone) : null,
  };
  await store.db
    .insertInto("presences")
    .values({ node_id: presence.nodeId, ...row })
    .onConflict((conflict) => conflict.column("node_id").doUpdateSet(row))
    .execute();
}
