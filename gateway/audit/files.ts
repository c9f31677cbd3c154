import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Store } from "../store/store.ts";
import { parseAuditLine } from "./audit-record.ts";
import {
  addSegment,
  dropPending,
  dropSegment,
  type PendingLine,
  readHead,
  readPending,
  readSegments,
  type SegmentRow,
} from "./chain.ts";
import { segmentName, type Segments } from "./segments.ts";

/** What the copying of records into files stands on. */
export interface AuditFilesOptions {
  readonly store: Store;
  readonly segments: Segments;
  readonly clock: Clock;
  readonly segmentBytes: number;
  readonly keepMs: number;
}

/** The files of the record, and what is to be copied into them. */
export interface AuditFiles {
  readonly segments: Segments;
  /** Copies what waits, syncs it, lets go of it; says how many. One call at a time. */
  copyPending(): Promise<number>;
}

const maxLines = 500;

/**
 * Opens the files: cuts a last line that a crash left half-written, passes over what was copied and not yet let go of,
 * and removes files that are too old. What the files have beyond the store's own last record is put aside: the store was
 * brought back from a copy, and its record goes on from there.
 */
export async function openAuditFiles(options: AuditFilesOptions): Promise<AuditFiles> {
  const { store, segments } = options;
  const rows = await readSegments(store.db);
  const { sequence } = await readHead(store.db);
  const [oldest, current] = [rows[0], rows.at(-1)];
  for (const number of await segments.numbers()) {
    // The file of a row that was dropped for its age.
    if (number < (oldest?.number ?? 0)) await segments.remove(number);
    if (number <= (current?.number ?? 0)) continue;
    await segments.keepAside(number);
    await segments.remove(number);
  }
  const tail = current
    ? await mendTail(segments, { number: current.number, lastSequence: sequence })
    : undefined;
  return new Files(options, current, tail);
}

/** The last whole line of a file up to the record that the store has as its last; what stands behind it is cut. */
async function mendTail(
  segments: Segments,
  { number, lastSequence }: { readonly number: number; readonly lastSequence: number },
): Promise<number | undefined> {
  let end = 0;
  let last: number | undefined;
  let isBeyond = false;
  for await (const { text, endBytes } of segments.read(number, 0)) {
    const sequence = parseAuditLine(text)?.record.sequence;
    isBeyond = (sequence ?? 0) > lastSequence;
    if (isBeyond) break;
    end = endBytes;
    last = sequence ?? last;
  }
  if (isBeyond) await segments.keepAside(number);
  if ((await segments.size(number)) > end) await segments.cut(number, end);
  return last;
}

class Files implements AuditFiles {
  readonly #options: AuditFilesOptions;
  #current: SegmentRow | undefined;
  /** The last record of the current file; undefined when it holds none. */
  #tail: number | undefined;

  constructor(options: AuditFilesOptions, current: SegmentRow | undefined, tail: number | undefined) {
    this.#options = options;
    this.#current = current;
    this.#tail = tail;
  }

  get segments(): Segments {
    return this.#options.segments;
  }

  async copyPending(): Promise<number> {
    const { store, segments } = this.#options;
    let moved = 0;
    for (;;) {
      const lines = await readPending(store.db, maxLines);
      const newest = lines.at(-1);
      if (!newest) return moved;
      const fresh = lines.filter(({ sequence }) => sequence > (this.#tail ?? 0));
      const [first] = fresh;
      let through = newest.sequence;
      if (first) {
        const segment = await this.#segmentFor(first);
        const room = this.#options.segmentBytes - (await segments.size(segment.number));
        const fitting = takeBytes(fresh, room);
        await segments.append(segment.number, fitting.map(({ text }) => `${text}\n`).join(""));
        through = fitting.at(-1)?.sequence ?? through;
        this.#tail = through;
        moved += fitting.length;
      }
      await dropPending(store.db, through);
    }
  }

  /** The file that goes on with `line`: the present one, unless it is full or ends elsewhere. */
  async #segmentFor(line: PendingLine): Promise<SegmentRow> {
    const { store, segments, clock, segmentBytes } = this.#options;
    const current = this.#current;
    if (current && (await segments.size(current.number)) < segmentBytes) {
      const next = (this.#tail ?? current.firstSequence - 1) + 1;
      if (next === line.sequence) return current;
    }
    const read = parseAuditLine(line.text);
    if (!read) throw new Fault("INTEGRITY_FAILURE", `audit record ${line.sequence} is damaged in state.db`);
    const segment: SegmentRow = {
      number: (current?.number ?? 0) + 1,
      firstSequence: line.sequence,
      firstPrevious: read.previous,
      openedAt: clock.now(),
    };
    if (await segments.has(segment.number)) {
      throw new Fault("INTEGRITY_FAILURE", `audit/${segmentName(segment.number)} is there and not known`, {
        details: { path: `audit/${segmentName(segment.number)}` },
        hint: "move the file away, then run the gateway again",
      });
    }
    await addSegment(store.db, segment);
    this.#current = segment;
    this.#tail = undefined;
    await this.#removeOld();
    return segment;
  }

  /** A file's last record is older than the first of the next one. */
  async #removeOld(): Promise<void> {
    const { store, segments, clock, keepMs } = this.#options;
    const rows = await readSegments(store.db);
    for (const [at, { number }] of rows.entries()) {
      const next = rows[at + 1];
      if (!next || next.openedAt > clock.now() - keepMs) return;
      await dropSegment(store.db, number);
      await segments.remove(number);
    }
  }
}

/** The first lines, until they fill `bytes`; one at least. */
function takeBytes(lines: readonly PendingLine[], bytes: number): readonly PendingLine[] {
  let left = bytes;
  const end = lines.findIndex(({ text }) => {
    const isFull = left <= 0;
    left -= Buffer.byteLength(text) + 1;
    return isFull;
  });
  return end < 0 ? lines : lines.slice(0, Math.max(1, end));
}
