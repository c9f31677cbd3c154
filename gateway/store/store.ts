import { existsSync } from "node:fs";
import { chmod, open, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { backup, DatabaseSync } from "node:sqlite";
import { Kysely, type Transaction } from "kysely";
import { faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { makePrivateFolder, privateFileMode, syncFolder } from "../../shared/identity/private-files.ts";
import { systemClock, type Clock } from "../../shared/lifetime/clock.ts";
import { lockHome, type HomeLock } from "../../shared/process/home-lock.ts";
import { faultFromSqlite, restoreHint } from "./fault-from-sqlite.ts";
import { createSchemaTable, migrate } from "./migrate.ts";
import { createSqliteDialect } from "./sqlite-dialect.ts";
import type { Tables } from "./tables.ts";

/** What a query runs on: the store, or a transaction of it. */
export type StoreDb = Kysely<Tables>;

/** A transaction of the store. */
export type StoreTransaction = Transaction<Tables>;

/**
 * The gateway's state. What a transaction wrote is on the disk when it resolves. An error that is not of the caller's
 * making (damaged, unreadable, full) arrives as a Fault.
 */
export interface Store extends AsyncDisposable {
  /** For single statements. Inside of `transaction` it would wait for that transaction: use the one handed in. */
  readonly db: StoreDb;
  /** The number of its schema. */
  readonly schema: number;
  /** Runs `work` as a whole or not at all; transactions never overlap. Keep waits for others out of it. */
  transaction<T>(work: (db: StoreTransaction) => Promise<T>): Promise<T>;
  /**
   * Copies the whole store, as it is at one moment after the call, into a new file for the owner alone; others wait
   * for their turn meanwhile. `DISK_FULL` or `IO_ERROR` when that cannot be written.
   */
  copyTo(file: string): Promise<void>;
}

/** What `openStore` takes. */
export interface StoreOptions {
  /** The gateway's folder; made for the owner alone when it is missing. */
  readonly dir: string;
  /** Where time comes from. */
  readonly clock?: Clock;
  /** The program that holds the home meanwhile, for others' messages. */
  readonly program?: string;
}

const fileName = "state.db";

/**
 * Opens the store in `dir` for this process alone, makes it when there is none, and brings it to the present schema.
 * `CONFLICT` when another process has it, `INTEGRITY_FAILURE` or `IO_ERROR` when it is there and cannot be read (an
 * empty one is never made in its place), `VERSION_UNSUPPORTED` when a later version wrote it. The caller disposes it.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const { dir, clock = systemClock, program = "fairlead gateway run" } = options;
  await makePrivateFolder(dir);
  const lock = lockHome(dir, { program });
  try {
    const file = join(dir, fileName);
    if (!existsSync(file)) await createFile(file, clock);
    return await openFile(file, { clock, lock });
  } catch (error) {
    lock[Symbol.dispose]();
    throw error;
  }
}

/** A new store is made beside its place and renamed when whole, so a file in place that is no store is a damaged one. */
async function createFile(file: string, clock: Clock): Promise<void> {
  if (existsSync(`${file}-wal`)) {
    throw new Fault("INTEGRITY_FAILURE", "state.db is missing and its log state.db-wal is there", {
      retryable: false,
      details: { path: fileName },
      hint: restoreHint,
    });
  }
  const stage = `${file}.new`;
  try {
    for (const ending of ["", "-journal", "-wal", "-shm"]) await rm(stage + ending, { force: true });
    await using made = await open(stage, "wx", privateFileMode);
    await made.chmod(privateFileMode);
  } catch (error) {
    throw faultFromErrno(error, fileName);
  }
  const { db } = openDatabase(stage, clock);
  try {
    await createSchemaTable(db);
    await migrate(db, { clock });
  } finally {
    await db.destroy();
  }
  await rename(stage, file);
  await syncFolder(dirname(file));
}

async function openFile(
  file: string,
  held: { readonly clock: Clock; readonly lock: HomeLock },
): Promise<Store> {
  await chmod(file, privateFileMode);
  const { db, database } = openDatabase(file, held.clock, "wal");
  try {
    const schema = await migrate(db, { clock: held.clock });
    return storeOver(db, { database, schema, lock: held.lock });
  } catch (error) {
    await db.destroy();
    throw error;
  }
}

interface OpenDatabase {
  readonly db: StoreDb;
  readonly database: DatabaseSync;
}

function openDatabase(file: string, clock: Clock, journal: "wal" | "delete" = "delete"): OpenDatabase {
  try {
    const database = new DatabaseSync(file, { enableForeignKeyConstraints: true, timeout: 5_000 });
    try {
      // Looked at before anything is set: setting the journal writes into a file that is empty.
      if (journal === "wal") checkWhole(database);
      database.exec(
        `PRAGMA journal_mode = ${journal}; PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF;`,
      );
    } catch (error) {
      database.close();
      throw error;
    }
    return { db: new Kysely<Tables>({ dialect: createSqliteDialect({ database, clock }) }), database };
  } catch (error) {
    throw faultFromSqlite(error);
  }
}

/** Finds damage at the start rather than in the middle of a change, and a store that was emptied. */
function checkWhole(database: DatabaseSync): void {
  const found = Object.values(database.prepare("PRAGMA quick_check(1)").get() ?? {})[0];
  const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'schema_versions'").get();
  if (found === "ok" && table) return;
  throw new Fault("INTEGRITY_FAILURE", table ? "state.db is damaged" : "state.db holds no schema number", {
    retryable: false,
    details: { path: fileName },
    hint: restoreHint,
    cause: found,
  });
}

interface HeldStore {
  readonly database: DatabaseSync;
  readonly schema: number;
  readonly lock: HomeLock;
}

function storeOver(db: StoreDb, held: HeldStore): Store {
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    try {
      await db.destroy();
    } finally {
      held.lock[Symbol.dispose]();
    }
  };
  return {
    db,
    schema: held.schema,
    transaction: (work) => db.transaction().execute(work),
    // Between two transactions: SQLite copies no database in the middle of one.
    copyTo: (file) => db.connection().execute(() => copyDatabase(held.database, file)),
    [Symbol.asyncDispose]: () => (closing ??= close()),
  };
}

async function copyDatabase(database: DatabaseSync, file: string): Promise<void> {
  try {
    await using made = await open(file, "wx", privateFileMode);
    await made.chmod(privateFileMode);
    await backup(database, file);
    await made.sync();
  } catch (error) {
    throw faultFromErrno(faultFromSqlite(error), "the copy of state.db");
  }
}
