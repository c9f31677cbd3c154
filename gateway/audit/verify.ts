import { Fault } from "../../shared/fault/fault.ts";
import type { StoreDb } from "../store/store.ts";
import { parseAuditLine } from "./audit-record.ts";
import { type ChainHead, readHead, readPending, readSegments, type SegmentRow } from "./chain.ts";
import { segmentName, type Segments } from "./segments.ts";

/** What was proved: every record between the two is there, as it was written, in its place. */
export interface AuditProof {
  /** The oldest that is kept; 0 when there is none. */
  readonly first: number;
  /** The newest; 0 when there is none. */
  readonly last: number;
  /** How many there are. */
  readonly records: number;
  readonly files: number;
}

/** What the proof reads. */
export interface VerifyParts {
  readonly db: StoreDb;
  readonly segments: Segments;
  readonly signal: AbortSignal;
  /** Only the newest file is followed, from where it begins. */
  readonly newestOnly?: boolean;
}

/**
 * Follows the chain from the oldest file to the head that the store keeps. `INTEGRITY_FAILURE` with `details.record` and
 * `details.path` of the first record that does not fit.
 */
export async function verifyAudit(parts: VerifyParts): Promise<AuditProof> {
  const head = await copiedHead(parts.db);
  const all = await readSegments(parts.db);
  const rows = parts.newestOnly === true ? all.slice(-1) : all;
  const [oldest] = rows;
  if (!oldest) {
    if (head.sequence > 0) throw broken(1, "", "it is missing");
    return { first: 0, last: 0, records: 0, files: 0 };
  }
  let at: ChainHead = { sequence: oldest.firstSequence - 1, hash: oldest.firstPrevious };
  for (const row of rows) at = await followFile(row, at, { ...parts, head });
  if (at.sequence < head.sequence) {
    throw broken(at.sequence + 1, nameOf(rows.at(-1)), "it is missing: the end was cut off");
  }
  const first = oldest.firstSequence;
  return { first, last: at.sequence, records: at.sequence - first + 1, files: rows.length };
}

/** The last record that must be in a file. */
async function copiedHead(db: StoreDb): Promise<ChainHead> {
  const [first] = await readPending(db, 1);
  if (!first) return await readHead(db);
  const line = parseAuditLine(first.text);
  if (!line) throw broken(first.sequence, "state.db", "its line was altered");
  return { sequence: first.sequence - 1, hash: line.previous };
}

async function followFile(
  row: SegmentRow,
  from: ChainHead,
  { segments, signal, head }: VerifyParts & { readonly head: ChainHead },
): Promise<ChainHead> {
  const file = nameOf(row);
  let at = from;
  if (row.firstSequence !== at.sequence + 1 || row.firstPrevious !== at.hash) {
    throw broken(at.sequence + 1, file, "it is missing: the file does not go on where the one before ended");
  }
  if (!(await segments.has(row.number))) throw broken(row.firstSequence, file, "its file is missing");
  for await (const { text } of segments.read(row.number, 0)) {
    signal.throwIfAborted();
    const expected = at.sequence + 1;
    // What is behind the head was made after the proof began.
    if (at.sequence >= head.sequence) break;
    const line = parseAuditLine(text);
    if (!line) throw broken(expected, file, "its line was altered");
    if (line.record.sequence !== expected) {
      throw broken(expected, file, `record ${line.record.sequence} stands in its place`);
    }
    if (line.previous !== at.hash) throw broken(expected, file, "it does not name the record before it");
    at = { sequence: expected, hash: line.hash };
  }
  if (at.sequence === head.sequence && at.hash !== head.hash) {
    throw broken(at.sequence, file, "it is not the record that the store has as the last");
  }
  return at;
}

function nameOf(row: SegmentRow | undefined): string {
  return row ? `audit/${segmentName(row.number)}` : "audit";
}

function broken(record: number, file: string, what: string): Fault {
  return new Fault("INTEGRITY_FAILURE", `the audit record does not fit from record ${record} on: ${what}`, {
    retryable: false,
    details: { record, ...(file === "" ? {} : { path: file }) },
    hint: "keep the files as they are, and compare them with a backup: fairlead gateway restore FILE",
  });
}
