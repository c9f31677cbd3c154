import path from "node:path";
import { createCoalescingQueue, type Queue } from "../../shared/flow/queue.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Store, StoreTransaction } from "../store/store.ts";
import type { AuditEntry, AuditRecord } from "./audit-record.ts";
import { parseAuditLine } from "./audit-record.ts";
import { extendChain, readHead, readPending, readSegments } from "./chain.ts";
import { openAuditFiles, type AuditFiles } from "./files.ts";
import { openSegments } from "./segments.ts";
import { type AuditProof, verifyAudit, type VerifyParts } from "./verify.ts";

/** Which records are wanted; what is absent is not asked. */
export interface AuditFilter {
  readonly nodeId?: string;
  readonly sessionId?: string;
  readonly callId?: string;
  /** The action, or its first words: `nodes` takes `nodes.rename`. */
  readonly action?: string;
  /** Not before this time, in milliseconds since 1970. */
  readonly sinceMs?: number;
  /** Records behind this one only. */
  readonly afterSequence?: number;
}

/** What ends a read. */
export interface AuditReadOptions {
  readonly signal: AbortSignal;
}

/**
 * The record of what happened. A record is made in the transaction of the change that it speaks of, so there is never
 * one without the other; then it is copied into files of lines that each name the digest of the line before.
 */
export interface Audit extends AsyncDisposable {
  /** Adds a record to `transaction`. Faults of the store are the change's as well: it is then not made. */
  record(transaction: StoreTransaction, entry: AuditEntry): Promise<void>;
  /** Makes a record of its own; resolves once it is on the disk. Many at once share one sync. */
  append(entry: AuditEntry): Promise<void>;
  /** The records that fit, oldest first, up to those made before the call. */
  query(filter: AuditFilter, options: AuditReadOptions): AsyncGenerator<AuditRecord>;
  /** The records that fit and all that will, until the signal ends it: none is left out, and none comes twice. */
  follow(filter: AuditFilter, options: AuditReadOptions): AsyncGenerator<AuditRecord>;
  /** The number of the last record; 0 when there is none. */
  last(): Promise<number>;
  /** Proves that nothing was altered or removed: `INTEGRITY_FAILURE` names the first record that does not fit. */
  verify(options: AuditReadOptions & Pick<VerifyParts, "newestOnly">): Promise<AuditProof>;
}

/** What `openAudit` takes. */
export interface AuditOptions {
  readonly store: Store;
  /** The folder of the files; made when it is missing. */
  readonly dir: string;
  readonly clock: Clock;
  /** Hears that files could not be written; the records stay in the store until they can. */
  readonly onFault: (error: unknown) => void;
  /** Size at which a file is closed. */
  readonly segmentBytes: number;
  /** How long a file is kept after its last record, in milliseconds. */
  readonly keepMs: number;
}

/** Opens the record, and writes what an earlier process left unwritten. The caller disposes it. */
export async function openAudit(options: AuditOptions): Promise<Audit> {
  const segments = await openSegments(path.resolve(options.dir));
  const files = await openAuditFiles({
    store: options.store,
    segments,
    clock: options.clock,
    segmentBytes: options.segmentBytes,
    keepMs: options.keepMs,
  });
  const audit = new OpenAudit(options, files);
  await audit.settle();
  return audit;
}

interface Waiting {
  readonly entry: AuditEntry;
  readonly done: PromiseWithResolvers<void>;
}

/** Records that one transaction takes at the most. */
const maxBatch = 200;

class OpenAudit implements Audit {
  readonly #options: AuditOptions;
  readonly #files: AuditFiles;
  readonly #waiting: Waiting[] = [];
  readonly #followers = new Set<Queue<true>>();
  #appending: Promise<void> | undefined;
  #settling: Promise<void> | undefined;
  #isDirty = false;

  constructor(options: AuditOptions, files: AuditFiles) {
    this.#options = options;
    this.#files = files;
  }

  async record(transaction: StoreTransaction, entry: AuditEntry): Promise<void> {
    await extendChain(transaction, [entry], this.#options.clock.now());
    // The copy waits for its turn at the store, so it comes after the end of this transaction.
    void this.settle();
  }

  append(entry: AuditEntry): Promise<void> {
    const done = Promise.withResolvers<void>();
    this.#waiting.push({ entry, done });
    this.#appending ??= this.#append();
    return done.promise;
  }

  async #append(): Promise<void> {
    // One turn later, so that what is made in this turn goes together.
    await Promise.resolve();
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, maxBatch);
      const entries = batch.map(({ entry }) => entry);
      try {
        const { store, clock } = this.#options;
        await store.transaction((transaction) => extendChain(transaction, entries, clock.now()));
        for (const { done } of batch) done.resolve();
      } catch (error) {
        for (const { done } of batch) done.reject(error);
      }
    }
    // In the turn that found nothing more: whoever comes next begins anew.
    this.#appending = undefined;
    void this.settle();
  }

  /** Resolves once every record made before the call is in a file, or could not be written. */
  settle(): Promise<void> {
    this.#isDirty = true;
    this.#settling ??= this.#copy();
    return this.#settling;
  }

  async #copy(): Promise<void> {
    while (this.#isDirty) {
      this.#isDirty = false;
      try {
        const moved = await this.#files.copyPending();
        if (moved > 0) for (const follower of this.#followers) void follower.push(true);
      } catch (error) {
        this.#options.onFault(error);
        break;
      }
    }
    this.#settling = undefined;
  }

  async *query(filter: AuditFilter, { signal }: AuditReadOptions): AsyncGenerator<AuditRecord> {
    const last = await this.last();
    await this.settle();
    for await (const record of this.#readOn(startBehind(filter), signal)) {
      if (record.sequence > last) return;
      if (fits(record, filter)) yield record;
    }
  }

  async *follow(filter: AuditFilter, { signal }: AuditReadOptions): AsyncGenerator<AuditRecord> {
    const news = createCoalescingQueue<true>({ limit: 1, keyOf: () => "news", onOverflow: () => true });
    const onAbort = (): void => news.close();
    signal.addEventListener("abort", onAbort, { once: true });
    this.#followers.add(news);
    void news.push(true);
    if (signal.aborted) news.close();
    try {
      const cursor = startBehind(filter);
      for await (const _ of news) {
        for await (const record of this.#readOn(cursor, signal)) {
          if (fits(record, filter)) yield record;
        }
      }
    } finally {
      signal.removeEventListener("abort", onAbort);
      this.#followers.delete(news);
      news.close();
    }
  }

  /** Whole records behind the cursor, which goes with them; a line that is none is passed over, and named by `verify`. */
  async *#readOn(cursor: Cursor, signal: AbortSignal): AsyncGenerator<AuditRecord> {
    const { db } = this.#options.store;
    const rows = await readSegments(db);
    const begin = rows.findLastIndex(
      ({ number, firstSequence }) => number === cursor.file || firstSequence <= cursor.sequence + 1,
    );
    for (const { number } of rows.slice(Math.max(0, begin))) {
      const fromBytes = number === cursor.file ? cursor.bytes : 0;
      for await (const { text, endBytes } of this.#files.segments.read(number, fromBytes)) {
        signal.throwIfAborted();
        cursor.file = number;
        cursor.bytes = endBytes;
        const line = parseAuditLine(text);
        if (!line || line.record.sequence <= cursor.sequence) continue;
        cursor.sequence = line.record.sequence;
        yield line.record;
      }
    }
    // What no file could take yet is in the record all the same. Lines that were copied meanwhile leave a hole, and
    // are read from the files the next time.
    for (const { text, sequence } of await readPending(db, maxBatch)) {
      const line = sequence === cursor.sequence + 1 ? parseAuditLine(text) : undefined;
      if (!line) continue;
      cursor.sequence = sequence;
      yield line.record;
    }
  }

  async last(): Promise<number> {
    return (await readHead(this.#options.store.db)).sequence;
  }

  async verify(options: AuditReadOptions & Pick<VerifyParts, "newestOnly">): Promise<AuditProof> {
    await this.settle();
    return await verifyAudit({
      db: this.#options.store.db,
      segments: this.#files.segments,
      ...options,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#appending;
    await this.settle();
    for (const follower of this.#followers) follower.close();
  }
}

/** How far a reader came. */
interface Cursor {
  /** The last record that it has. */
  sequence: number;
  /** The file that it read last, and how far. */
  file: number;
  bytes: number;
}

function startBehind({ afterSequence = 0 }: AuditFilter): Cursor {
  return { sequence: afterSequence, file: 0, bytes: 0 };
}

function fits(record: AuditRecord, filter: AuditFilter): boolean {
  const { nodeId, sessionId, callId, action, sinceMs } = filter;
  if (nodeId !== undefined && record.nodeId !== nodeId) return false;
  if (sessionId !== undefined && record.sessionId !== sessionId) return false;
  if (callId !== undefined && record.callId !== callId) return false;
  if (action !== undefined && record.action !== action && !record.action.startsWith(`${action}.`))
    return false;
  return sinceMs === undefined || Date.parse(record.time) >= sinceMs;
}
