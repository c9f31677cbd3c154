import { rmSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { vectorSchema } from "./vector-store.ts";

/** The shape of an index file: another one is rebuilt, never guessed at. */
const schemaVersion = 3;

/** Names what an index was made by. */
const identity = `schema ${schemaVersion}`;

const schema = `
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
  CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    digest TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    modified_ms INTEGER NOT NULL,
    chunking TEXT NOT NULL,
    evergreen INTEGER NOT NULL,
    fault TEXT
  ) STRICT;
  CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    file INTEGER NOT NULL REFERENCES files (id),
    first_line INTEGER NOT NULL,
    last_line INTEGER NOT NULL,
    heading TEXT NOT NULL,
    text TEXT NOT NULL,
    digest BLOB NOT NULL,
    sum INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX chunks_of_file ON chunks (file);
  CREATE INDEX chunks_of_digest ON chunks (digest);
  CREATE VIRTUAL TABLE words USING fts5 (
    text, heading, content = 'chunks', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
  );
  CREATE TRIGGER chunk_added AFTER INSERT ON chunks BEGIN
    INSERT INTO words (rowid, text, heading) VALUES (new.id, new.text, new.heading);
  END;
  CREATE TRIGGER chunk_removed AFTER DELETE ON chunks BEGIN
    INSERT INTO words (words, rowid, text, heading) VALUES ('delete', old.id, old.text, old.heading);
  END;
  ${vectorSchema}
`;

/** An index file that was opened. */
export interface OpenedIndexFile {
  readonly database: DatabaseSync;
  /** Why it begins empty: there was none, another version made it, or it could not be read. Undefined: it goes on. */
  readonly rebuilt: "missing" | "older_version" | "damaged" | undefined;
}

/**
 * Opens the index at `path` or begins a new one. A file that cannot be read, or that another version made, is removed
 * and begun again: everything in it can be had from the node.
 */
export function openIndexFile(path: string): OpenedIndexFile {
  const opened = tryOpen(path);
  if (typeof opened !== "string") return { database: opened, rebuilt: undefined };
  removeIndexFile(path);
  const database = new DatabaseSync(path, { allowExtension: true });
  prepare(database);
  database.exec("BEGIN IMMEDIATE");
  database.exec(schema);
  database.prepare("INSERT INTO meta (key, value) VALUES ('identity', ?)").run(identity);
  database.exec("COMMIT");
  return { database, rebuilt: opened };
}

/** Removes an index file and what SQLite keeps beside it. */
export function removeIndexFile(path: string): void {
  for (const ending of ["", "-wal", "-shm", "-journal"]) rmSync(`${path}${ending}`, { force: true });
}

function tryOpen(path: string): DatabaseSync | "missing" | "older_version" | "damaged" {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path, { allowExtension: true });
    prepare(database);
    const [first] = database.prepare("SELECT count(*) AS tables FROM sqlite_schema").all();
    if (first?.["tables"] === 0) return abandon(database, "missing");
    const row = database.prepare("SELECT value FROM meta WHERE key = 'identity'").get();
    if (row?.["value"] !== identity) return abandon(database, "older_version");
    const [check] = database.prepare("PRAGMA quick_check(1)").all();
    if (check?.["quick_check"] !== "ok") return abandon(database, "damaged");
    return database;
  } catch (error) {
    database?.close();
    // A table that is missing shows as a wrong statement.
    if (isDamage(error) || resultOf(error) === 1) return "damaged";
    throw error;
  }
}

/** What is wrong with an index that holds other bytes than were written to it. */
export class DamagedIndexError extends Error {}

/** Whether an error says that the file is damaged or no index at all, rather than locked, full or out of reach. */
export function isDamage(error: unknown): boolean {
  const result = resultOf(error);
  // SQLITE_CORRUPT and SQLITE_NOTADB.
  return error instanceof DamagedIndexError || result === 11 || result === 26;
}

function resultOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error) || typeof error.errcode !== "number")
    return undefined;
  return error.errcode & 0xff;
}

function abandon<R extends string>(database: DatabaseSync, reason: R): R {
  database.close();
  return reason;
}

function prepare(database: DatabaseSync): void {
  // Losing the last moments of a derived index is harmless, so no commit waits for the disk. What is removed is written
  // over: a text that was to be forgotten is not to be found in what was free since an earlier edit.
  database.exec(
    "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 2000; PRAGMA secure_delete = ON;",
  );
}
