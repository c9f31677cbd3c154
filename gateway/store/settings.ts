import type { JsonValue } from "../../shared/fault/fault.ts";
import type { StoreDb } from "./store.ts";

/** A single value by name, or undefined. Who reads it checks its shape. */
export async function getSetting(db: StoreDb, key: string): Promise<unknown> {
  const row = await db.selectFrom("settings").select("value_json").where("key", "=", key).executeTakeFirst();
  return row === undefined ? undefined : JSON.parse(row.value_json);
}

/** Sets a single value; `now` is the time in milliseconds since 1970. */
export async function putSetting(
  db: StoreDb,
  key: string,
  entry: { readonly value: JsonValue; readonly now: number },
): Promise<void> {
  const row = { value_json: JSON.stringify(entry.value), updated_at: entry.now };
  await db
    .insertInto("settings")
    .values({ key, ...row })
    .onConflict((conflict) => conflict.column("key").doUpdateSet(row))
    .execute();
}

/** Forgets a single value; one that is not there is well. */
export async function deleteSetting(db: StoreDb, key: string): Promise<void> {
  await db.deleteFrom("settings").where("key", "=", key).execute();
}
