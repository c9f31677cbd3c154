import type { StoreDb, StoreTransaction } from "../store/store.ts";
import type { EnrolmentRequestsTable } from "../store/tables.ts";
import { giveBackUse } from "./codes.ts";
import type { EnrolmentLimits } from "./enrolments.ts";

// As long as a code is known after its end, so that who asks again hears what became of its request.
const keptAfterCloseMs = 30 * 86_400_000;
/** Most decided requests that are remembered. */
const maxClosed = 10_000;

/** Closes requests whose time has passed. */
export async function expireRequests(db: StoreDb, now: number): Promise<void> {
  await db
    .updateTable("enrolment_requests")
    .set((columns) => ({ state: "expired", closed_at: columns.ref("expires_at") }))
    .where("state", "=", "pending")
    .where("expires_at", "<=", now)
    .execute();
}

/** Forgets what was decided long ago, or is more than the store remembers. */
async function forgetClosed(db: StoreTransaction, row: EnrolmentRequestsTable): Promise<void> {
  await db
    .deleteFrom("enrolment_requests")
    .where("closed_at", "<", row.asked_at - keptAfterCloseMs)
    .execute();
  await db
    .deleteFrom("enrolment_requests")
    .where("state", "!=", "pending")
    .where("number", "<=", row.number - maxClosed)
    .execute();
}

/**
 * Keeps what waits within its bounds after `row` was added: the oldest of its address give way, then the oldest of the
 * address that holds most. What gave way is gone, and its code has its use back. Gives the ids.
 */
export async function makeRoom(
  db: StoreTransaction,
  row: EnrolmentRequestsTable,
  limits: EnrolmentLimits,
): Promise<readonly string[]> {
  await forgetClosed(db, row);
  const gone = await beyondOfSource(db, row.source, limits.pendingRequestsPerAddress);
  for (const one of gone) await giveWay(db, one);
  let over = (await countPending(db)) - limits.pendingRequests;
  for (; over > 0; over -= 1) {
    const oldest = await oldestOfFullest(db);
    if (!oldest) break;
    await giveWay(db, oldest);
    gone.push(oldest);
  }
  return gone.map(({ id }) => id);
}

type Gone = Pick<EnrolmentRequestsTable, "id" | "code_id">;

async function beyondOfSource(db: StoreTransaction, source: string, limit: number): Promise<Gone[]> {
  const rows = await db
    .selectFrom("enrolment_requests")
    .select(["id", "code_id"])
    .where("state", "=", "pending")
    .where("source", "=", source)
    .orderBy("number", "desc")
    .execute();
  return rows.slice(limit);
}

async function countPending(db: StoreTransaction): Promise<number> {
  const row = await db
    .selectFrom("enrolment_requests")
    .select((columns) => columns.fn.countAll<number>().as("count"))
    .where("state", "=", "pending")
    .executeTakeFirst();
  return Number(row?.count ?? 0);
}

async function oldestOfFullest(db: StoreTransaction): Promise<Gone | undefined> {
  const fullest = await db
    .selectFrom("enrolment_requests")
    .select("source")
    .where("state", "=", "pending")
    .groupBy("source")
    .orderBy((columns) => columns.fn.countAll(), "desc")
    .orderBy((columns) => columns.fn.min("number"))
    .executeTakeFirst();
  if (!fullest) return undefined;
  return await db
    .selectFrom("enrolment_requests")
    .select(["id", "code_id"])
    .where("state", "=", "pending")
    .where("source", "=", fullest.source)
    .orderBy("number")
    .executeTakeFirst();
}

async function giveWay(db: StoreTransaction, { id, code_id: codeId }: Gone): Promise<void> {
  await db.deleteFrom("enrolment_requests").where("id", "=", id).execute();
  await giveBackUse(db, codeId);
}
