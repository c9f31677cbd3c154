import { randomUUID } from "node:crypto";
import { chmodSync, closeSync, openSync } from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { privateFileMode, syncFolder } from "../../shared/identity/private-files.ts";

/** A call as it is written down before it runs. */
export interface BegunCall {
  readonly callId: string;
  readonly path: string;
  readonly key: string | undefined;
  /** Whether it is a job: how it ended is asked of the jobs. */
  readonly job: boolean;
  /** Digest of its request, when that was read as a whole before. */
  readonly request: Uint8Array | undefined;
  readonly begunAt: number;
}

/** How a call ended, as it is written down. */
export interface CallEnding {
  readonly callId: string;
  readonly endedAt: number;
  /** An encoded `NodeGetOutcomeResponse`. */
  readonly outcome: Uint8Array;
  /** Digest over what was read of the request, and how many messages that were. */
  readonly request: Uint8Array | undefined;
  readonly readCount: number;
}

/** A call that stands in the ledger. */
export interface RecordedCall {
  readonly callId: string;
  readonly path: string;
  readonly key: string | undefined;
  readonly job: boolean;
  readonly request: Uint8Array | undefined;
  readonly readCount: number;
  readonly endedAt: number | undefined;
  readonly outcome: Uint8Array | undefined;
}

/** What the ledger holds. */
export interface LedgerSize {
  readonly calls: number;
  /** Bytes of outcomes. */
  readonly bytes: number;
}

/**
 * The file of the ledger. A commit only writes to SQLite's log; `sync` brings that log to the disk, off this thread, and
 * one sync serves all who wrote before it began. Every method faults with `DISK_FULL` or `IO_ERROR`.
 */
export interface LedgerStore extends Disposable {
  /** Made with the file: tells a ledger that was lost from one that never knew a call. */
  readonly id: string;
  find(callId: string, key: string | undefined): RecordedCall | undefined;
  /** Writes a call down; it may run once this has resolved. */
  begin(call: BegunCall): Promise<void>;
  end(ending: CallEnding): void;
  /** Ends, with one outcome, every call but the jobs that has none: their process is gone. */
  endAll(endedAt: number, toOutcome: (callId: string, path: string) => Uint8Array): void;
  /** Forgets a call that never ran. */
  drop(callId: string): void;
  /** Forgets what ended, and jobs that began, before. */
  forget(before: { readonly endedAt: number; readonly jobsBegunAt: number }): void;
  size(): LedgerSize;
}

const schema = `
  CREATE TABLE IF NOT EXISTS ledger (id TEXT NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS calls (
    call_id TEXT PRIMARY KEY,
    path TEXT NOT NULL,
    key TEXT,
    job INTEGER NOT NULL,
    request BLOB,
    read_count INTEGER NOT NULL,
    begun_at INTEGER NOT NULL,
    ended_at INTEGER,
    outcome BLOB
  ) STRICT;
  CREATE UNIQUE INDEX IF NOT EXISTS calls_key ON calls (key) WHERE key IS NOT NULL;
  CREATE INDEX IF NOT EXISTS calls_ended ON calls (ended_at) WHERE ended_at IS NOT NULL;
`;

/** Opens the ledger at `file`, or makes it; without a file it is kept in memory, for a node that never restarts. */
export function openLedgerStore(file?: string): LedgerStore {
  return guarded(file, () => new SqliteLedger(file));
}

class SqliteLedger implements LedgerStore {
  readonly id: string;
  readonly #file: string | undefined;
  readonly #database: DatabaseSync;
  readonly #statements: Readonly<Record<keyof typeof texts, StatementSync>>;
  #size: LedgerSize;
  /** The sync that runs, and the one that begins after it. */
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #isFolderSynced = false;

  constructor(file: string | undefined) {
    this.#file = file;
    this.#database = openDatabase(file);
    try {
      this.#database.exec(schema);
      const statements = Object.entries(texts).map(([name, text]) => [name, this.#database.prepare(text)]);
      // The keys are those of `texts`; `fromEntries` forgets them.
      this.#statements = Object.fromEntries(statements) as Record<keyof typeof texts, StatementSync>;
      const known = this.#database.prepare("SELECT id FROM ledger").get();
      this.id = textOf(known?.["id"]) ?? randomUUID();
      if (!known) this.#database.prepare("INSERT INTO ledger (id) VALUES (?)").run(this.id);
      this.#size = this.#measure();
    } catch (error) {
      this.#database.close();
      throw error;
    }
  }

  #measure(): LedgerSize {
    const row = this.#statements.size.get();
    return { calls: Number(row?.["calls"] ?? 0), bytes: Number(row?.["bytes"] ?? 0) };
  }

  size(): LedgerSize {
    return this.#size;
  }

  find(callId: string, key: string | undefined): RecordedCall | undefined {
    const row = guarded(this.#file, () => this.#statements.find.get(callId, key ?? null, callId));
    return row ? toRecord(row) : undefined;
  }

  async begin(call: BegunCall): Promise<void> {
    guarded(this.#file, () => {
      const { callId, path, key, job, request, begunAt } = call;
      const readCount = request ? 1 : 0;
      const ofRequest = [key ?? null, job ? 1 : 0, request ?? null, readCount] as const;
      this.#statements.begin.run(callId, path, ...ofRequest, begunAt);
      this.#size = { ...this.#size, calls: this.#size.calls + 1 };
    });
    await this.#sync();
  }

  end({ callId, endedAt, outcome, request, readCount }: CallEnding): void {
    guarded(this.#file, () => {
      const { changes } = this.#statements.end.run(endedAt, outcome, request ?? null, readCount, callId);
      if (Number(changes) > 0) this.#size = { ...this.#size, bytes: this.#size.bytes + outcome.byteLength };
    });
    // After a loss of power it counts as one whose end nobody knows, which is true: nobody waits for the disk here.
    this.#sync().catch(() => undefined);
  }

  endAll(endedAt: number, toOutcome: (callId: string, path: string) => Uint8Array): void {
    guarded(this.#file, () => {
      for (const row of this.#statements.unended.all()) {
        const { callId, path, request, readCount } = toRecord(row);
        this.end({ callId, endedAt, outcome: toOutcome(callId, path), request, readCount });
      }
    });
  }

  drop(callId: string): void {
    guarded(this.#file, () => this.#statements.drop.run(callId));
    this.#size = this.#measure();
  }

  forget({ endedAt, jobsBegunAt }: { readonly endedAt: number; readonly jobsBegunAt: number }): void {
    const { changes } = guarded(this.#file, () => this.#statements.forget.run(endedAt, jobsBegunAt));
    if (Number(changes) > 0) this.#size = this.#measure();
  }

  /** Resolves once everything that was written before is on the disk. */
  #sync(): Promise<void> {
    if (this.#file === undefined) return Promise.resolve();
    if (!this.#running) return this.#start(this.#file);
    const file = this.#file;
    this.#next ??= this.#running.then(
      () => this.#start(file),
      () => this.#start(file),
    );
    return this.#next;
  }

  #start(file: string): Promise<void> {
    this.#next = undefined;
    const running = this.#syncLog(file).finally(() => {
      if (this.#running === running) this.#running = undefined;
    });
    this.#running = running;
    return running;
  }

  async #syncLog(file: string): Promise<void> {
    try {
      // Opened anew each time: the log is the file of that name, whatever SQLite did to it. It holds no lock on it.
      await using log = await open(`${file}-wal`, "r+");
      await log.datasync();
      if (this.#isFolderSynced) return;
      await syncFolder(dirname(file));
      this.#isFolderSynced = true;
    } catch (error) {
      throw ledgerFault(error, file);
    }
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }
}

const texts = {
  find: "SELECT * FROM calls WHERE call_id = ? OR key = ? ORDER BY call_id = ? DESC LIMIT 1",
  begin:
    "INSERT INTO calls (call_id, path, key, job, request, read_count, begun_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
  end: "UPDATE calls SET ended_at = ?, outcome = ?, request = ?, read_count = ? WHERE call_id = ?",
  unended: "SELECT * FROM calls WHERE ended_at IS NULL AND job = 0",
  drop: "DELETE FROM calls WHERE call_id = ?",
  forget: "DELETE FROM calls WHERE ended_at < ? OR (job = 1 AND begun_at < ?)",
  size: "SELECT count(*) AS calls, coalesce(sum(length(outcome)), 0) AS bytes FROM calls",
} as const;

function openDatabase(file: string | undefined): DatabaseSync {
  if (file === undefined) return new DatabaseSync(":memory:");
  closeSync(openSync(file, "a", privateFileMode));
  chmodSync(file, privateFileMode);
  const database = new DatabaseSync(file, { timeout: 1000 });
  // A commit writes to the log and waits for no disk: `sync` does, where it matters.
  database.exec(
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 4194304",
  );
  return database;
}

function toRecord(row: Record<string, unknown>): RecordedCall {
  return {
    callId: textOf(row["call_id"]) ?? "",
    path: textOf(row["path"]) ?? "",
    key: textOf(row["key"]),
    job: row["job"] === 1,
    request: bytesOf(row["request"]),
    readCount: Number(row["read_count"]),
    endedAt: typeof row["ended_at"] === "number" ? row["ended_at"] : undefined,
    outcome: bytesOf(row["outcome"]),
  };
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function bytesOf(value: unknown): Uint8Array | undefined {
  return value instanceof Uint8Array ? value : undefined;
}

function guarded<T>(file: string | undefined, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw ledgerFault(error, file ?? "the ledger");
  }
}

const diskFull = 13;
const damaged: ReadonlySet<number> = new Set([11, 26]);

/** Whatever went wrong with the file is of the disk: `DISK_FULL` or `IO_ERROR`. */
function ledgerFault(error: unknown, file: string): Fault {
  if (error instanceof Fault) return error;
  const name = basename(file);
  const result = error instanceof Error && "errcode" in error ? Number(error.errcode) & 0xff : 0;
  if (result === diskFull) {
    return new Fault("DISK_FULL", `the node's ledger ${name} could not be written: the disk is full`, {
      hint: "make room on the node's disk; nothing ran",
      details: { path: name, result },
      cause: error,
    });
  }
  const fault = faultFromErrno(error, `the node's ledger ${name}`);
  if (fault instanceof Fault && fault.code === "DISK_FULL") return fault;
  const words = damaged.has(result) ? "is damaged" : "could not be read or written";
  return new Fault("IO_ERROR", `the node's ledger ${name} ${words}`, {
    hint: damaged.has(result)
      ? `move ${name} away on the node; the outcomes in it are then unknown`
      : "look at the folder of the node's state and its disk; nothing ran",
    details: { path: name, result },
    cause: error,
  });
}
