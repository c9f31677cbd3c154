import { randomBytes } from "node:crypto";
import { comparisonCode } from "../../shared/identity/comparison-code.ts";
import type { Pin } from "../../shared/identity/pin.ts";
import type { StoreTransaction } from "../store/store.ts";
import type { EnrolmentRequestsTable, JoinCodesTable } from "../store/tables.ts";
import { giveBackUse, takeUse } from "./codes.ts";
import { expireRequests, makeRoom } from "./enrolment-bounds.ts";
import { changedFields, type CoveredContent } from "./enrolment-rows.ts";
import type { EnrolmentLimits } from "./enrolments.ts";
import type { CallSource } from "./source-address.ts";

/** A machine's request, as it arrives. */
export interface Asking {
  readonly code: JoinCodesTable;
  readonly content: CoveredContent;
  /** The request that it goes on with although its key is another; empty: none. */
  readonly continues: string;
  readonly from: CallSource;
  /** The pin of the gateway's authority. */
  readonly gateway: Pin;
  readonly limits: EnrolmentLimits;
  /** The time, in milliseconds since 1970. */
  readonly now: number;
}

/** What asking came to. */
export interface Asked {
  /** The request as it stands: `pending`, or decided before. */
  readonly row: EnrolmentRequestsTable;
  /** Whether it was not there before. */
  readonly isNew: boolean;
  /** The request whose place it took. */
  readonly superseded: string | undefined;
  /** Requests that gave way to it. */
  readonly gaveWay: readonly string[];
}

// A machine that waits asks once a minute or so; the store need not hear of each.
const seenEveryMs = 60_000;

/**
 * Finds the machine's request, or makes it, in one transaction: asking again the same is the same request; anything else
 * that its approval would cover, another code included, is another request that takes its place. A code's use is taken by
 * the request, and given back by one that gave way or was superseded through another code. Faults are those of `takeUse`.
 */
export async function askToEnrol(db: StoreTransaction, asking: Asking): Promise<Asked> {
  await expireRequests(db, asking.now);
  const before = await findDecided(db, asking);
  if (before) return { row: before, isNew: false, superseded: undefined, gaveWay: [] };
  const standing = await findStanding(db, asking);
  if (standing && isSame(standing, asking)) {
    return { row: await touch(db, standing, asking), isNew: false, superseded: undefined, gaveWay: [] };
  }
  if (standing?.code_id !== asking.code.id) await takeUse(db, asking.code, asking.now);
  const row = await newRow(db, asking);
  if (standing) await supersede(db, standing, row);
  await db.insertInto("enrolment_requests").values(row).execute();
  const gaveWay = await makeRoom(db, row, asking.limits);
  return { row, isNew: true, superseded: standing?.id, gaveWay };
}

/** A decision about this machine with this code stands. */
async function findDecided(
  db: StoreTransaction,
  { code, content }: Asking,
): Promise<EnrolmentRequestsTable | undefined> {
  return await db
    .selectFrom("enrolment_requests")
    .selectAll()
    .where("key_digest", "=", content.key_digest)
    .where("code_id", "=", code.id)
    .where("state", "in", ["approved", "rejected", "expired"])
    .orderBy("number", "desc")
    .executeTakeFirst();
}

/** The machine's own request; or the one that it names, when it knows the secret of that one's code. */
async function findStanding(
  db: StoreTransaction,
  { code, content, continues }: Asking,
): Promise<EnrolmentRequestsTable | undefined> {
  const pending = db.selectFrom("enrolment_requests").selectAll().where("state", "=", "pending");
  const own = await pending.where("key_digest", "=", content.key_digest).executeTakeFirst();
  if (own || continues === "") return own;
  return await pending.where("id", "=", continues).where("code_id", "=", code.id).executeTakeFirst();
}

function isSame(row: EnrolmentRequestsTable, { code, content }: Asking): boolean {
  return row.code_id === code.id && changedFields(row, content).length === 0;
}

async function touch(
  db: StoreTransaction,
  row: EnrolmentRequestsTable,
  { from, now }: Asking,
): Promise<EnrolmentRequestsTable> {
  if (row.address === from.address && now - row.seen_at < seenEveryMs) return row;
  const changes = { ...from, seen_at: now };
  await db.updateTable("enrolment_requests").set(changes).where("id", "=", row.id).execute();
  return { ...row, ...changes };
}

async function newRow(
  db: StoreTransaction,
  { code, content, from, gateway, limits, now }: Asking,
): Promise<EnrolmentRequestsTable> {
  const last = await db
    .selectFrom("enrolment_requests")
    .select((columns) => columns.fn.max("number").as("number"))
    .executeTakeFirst();
  const id = randomBytes(6).toString("hex");
  return {
    ...content,
    ...from,
    id,
    number: (last?.number ?? 0) + 1,
    code_id: code.id,
    state: "pending",
    comparison_code: comparisonCode({ gateway, machine: content.key_digest as Pin, requestId: id }),
    asked_at: now,
    seen_at: now,
    expires_at: now + limits.pendingRequestMs,
    closed_at: null,
    superseded_by: null,
    node_id: null,
  };
}

/** Most requests in whose place the present one stands that are remembered. */
const maxSuperseded = 20;

async function supersede(
  db: StoreTransaction,
  old: EnrolmentRequestsTable,
  by: EnrolmentRequestsTable,
): Promise<void> {
  const changes = { state: "superseded", superseded_by: by.id, closed_at: by.asked_at };
  await db
    .updateTable("enrolment_requests")
    .set(changes)
    .where((where) => where.or([where("id", "=", old.id), where("superseded_by", "=", old.id)]))
    .execute();
  const kept = db
    .selectFrom("enrolment_requests")
    .select("number")
    .where("superseded_by", "=", by.id)
    .orderBy("number", "desc")
    .limit(maxSuperseded);
  await db
    .deleteFrom("enrolment_requests")
    .where("superseded_by", "=", by.id)
    .where("number", "not in", kept)
    .execute();
  if (old.code_id !== by.code_id) await giveBackUse(db, old.code_id);
}
