import { Fault } from "../../shared/fault/fault.ts";
import type { StoreDb, StoreTransaction } from "../store/store.ts";
import { type AuditEntry, firstForerunner, formatAuditLine } from "./audit-record.ts";

/** The last record that was made. */
export interface ChainHead {
  /** 0 when there is none yet. */
  readonly sequence: number;
  readonly hash: string;
}

/** A line that is in the store and not yet in a file. */
export interface PendingLine extends ChainHead {
  readonly text: string;
}

/** A file of the record as the store knows it. */
export interface SegmentRow {
  readonly number: number;
  /** Its first record. */
  readonly firstSequence: number;
  /** What that one names as its forerunner. */
  readonly firstPrevious: string;
  /** When it was begun, in milliseconds since 1970. */
  readonly openedAt: number;
}

/** Records that wait for the disk at the most; a record more is refused. */
const maxPending = 20_000;

/** The last record that was made. */
export async function readHead(db: StoreDb): Promise<ChainHead> {
  const row = await db.selectFrom("audit_head").selectAll().where("id", "=", 1).executeTakeFirst();
  return row ? { sequence: row.sequence, hash: row.hash } : { sequence: 0, hash: firstForerunner };
}

/** Adds records to the chain, within a transaction: they are made when it is, or not at all. */
export async function extendChain(
  db: StoreTransaction,
  entries: readonly AuditEntry[],
  timeMs: number,
): Promise<void> {
  await refuseWhenStuck(db, entries.length);
  let { sequence, hash } = await readHead(db);
  for (const entry of entries) {
    sequence += 1;
    const line = formatAuditLine(entry, { sequence, timeMs, previous: hash });
    hash = line.hash;
    await db.insertInto("audit_pending").values({ sequence, hash, line: line.text }).execute();
  }
  await db
    .insertInto("audit_head")
    .values({ id: 1, sequence, hash })
    .onConflict((conflict) => conflict.column("id").doUpdateSet({ sequence, hash }))
    .execute();
}

async function refuseWhenStuck(db: StoreDb, more: number): Promise<void> {
  const { waiting } = await db
    .selectFrom("audit_pending")
    .select((columns) => columns.fn.countAll<number>().as("waiting"))
    .executeTakeFirstOrThrow();
  if (Number(waiting) + more <= maxPending) return;
  throw new Fault(
    "IO_ERROR",
    `the audit record has ${waiting} lines that could not be written to its files`,
    {
      retryable: true,
      details: { path: "audit", limit: maxPending },
      hint: "make room on the disk of the gateway's home; fairlead gateway status shows it",
    },
  );
}

/** The next lines that are to be written to a file, in order. */
export async function readPending(db: StoreDb, limit: number): Promise<readonly PendingLine[]> {
  const rows = await db.selectFrom("audit_pending").selectAll().orderBy("sequence").limit(limit).execute();
  return rows.map(({ sequence, hash, line }) => ({ sequence, hash, text: line }));
}

/** Lets go of lines that are in a file. */
export async function dropPending(db: StoreDb, throughSequence: number): Promise<void> {
  await db.deleteFrom("audit_pending").where("sequence", "<=", throughSequence).execute();
}

/** The files of the record, oldest first. */
export async function readSegments(db: StoreDb): Promise<readonly SegmentRow[]> {
  const rows = await db.selectFrom("audit_segments").selectAll().orderBy("number").execute();
  return rows.map((row) => ({
    number: row.number,
    firstSequence: row.first_sequence,
    firstPrevious: row.first_previous,
    openedAt: row.opened_at,
  }));
}

/** Notes a file before it is begun, so that its loss is seen. */
export async function addSegment(db: StoreDb, segment: SegmentRow): Promise<void> {
  await db
    .insertInto("audit_segments")
    .values({
      number: segment.number,
      first_sequence: segment.firstSequence,
      first_previous: segment.firstPrevious,
      opened_at: segment.openedAt,
    })
    .execute();
}

/** Forgets a file that is about to be removed for its age. */
export async function dropSegment(db: StoreDb, number: number): Promise<void> {
  await db.deleteFrom("audit_segments").where("number", "=", number).execute();
}
