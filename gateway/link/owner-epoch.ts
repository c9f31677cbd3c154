import type { Clock } from "../../shared/lifetime/clock.ts";
import { getSetting, putSetting } from "../store/settings.ts";
import type { Store } from "../store/store.ts";

const epochKey = "link.owner_epoch";

/**
 * The epoch of this gateway process: higher than that of every process before it on this store. It follows the time, so that
 * a store which was brought back from a copy claims nodes again, and the process that it replaced no longer does.
 */
export async function nextOwnerEpoch(store: Pick<Store, "db">, clock: Clock): Promise<bigint> {
  const now = clock.now();
  const last = await getSetting(store.db, epochKey);
  const epoch = Math.max(Math.round(now), typeof last === "number" ? last + 1 : 1);
  await putSetting(store.db, epochKey, { value: epoch, now });
  return BigInt(epoch);
}
