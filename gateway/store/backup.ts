import { createHash } from "node:crypto";
import { chmodSync } from "node:fs";
import { open, readdir, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { digestOf } from "../../shared/content/digest.ts";
import { errnoOf, faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { privateFileMode } from "../../shared/identity/private-files.ts";
import { faultFromSqlite } from "./fault-from-sqlite.ts";
import type { Store } from "./store.ts";

/**
 * A backup is one SQLite file: the store as it was at one moment, and beside its tables the files of the gateway's
 * folder that are part of its state, each with its digest.
 */

/** The form of the backups that this version writes and reads. */
export const backupFormat = 1;

/** Files and folders of the gateway's folder that a backup holds, besides the store. */
const kept: readonly string[] = ["config.yaml", "policy.yaml", "authority", "audit"];

/** What `writeBackup` takes. */
export interface BackupOptions {
  readonly store: Store;
  /** The gateway's folder. */
  readonly dir: string;
  /** Where to; not there yet. A failed backup leaves it half-written: the caller removes it. */
  readonly file: string;
  /** This program's version, for whoever looks at the backup. */
  readonly version: string;
  /** The time, in milliseconds since 1970. */
  readonly now: number;
}

/**
 * Writes a backup while the gateway runs. It holds every change that was acknowledged before the call. Files are read
 * after the store was copied, so none of them is behind it; what they have more is cut at the restore.
 */
export async function writeBackup(options: BackupOptions): Promise<void> {
  const { store, dir, file, version, now } = options;
  await store.copyTo(file);
  const database = new DatabaseSync(file);
  try {
    database.exec("PRAGMA journal_mode = DELETE; PRAGMA synchronous = FULL");
    database.exec(
      "CREATE TABLE backup_info (format INTEGER NOT NULL, version TEXT NOT NULL, made_at INTEGER NOT NULL, digest TEXT NOT NULL) STRICT",
    );
    database.exec(
      "CREATE TABLE backup_files (path TEXT PRIMARY KEY, digest TEXT NOT NULL, bytes BLOB NOT NULL) STRICT",
    );
    const addFile = database.prepare("INSERT INTO backup_files (path, digest, bytes) VALUES (?, ?, ?)");
    for await (const name of listKept(dir)) {
      const bytes = await readKept(path.join(dir, name));
      if (bytes) addFile.run(name, digestOf(bytes), bytes);
    }
    const digest = digestTables(database);
    database.prepare("INSERT INTO backup_info VALUES (?, ?, ?, ?)").run(backupFormat, version, now, digest);
  } catch (error) {
    throw faultFromErrno(faultFromSqlite(error), "the backup");
  } finally {
    database.close();
  }
  await using written = await open(file, "r+");
  await written.sync();
}

async function* listKept(dir: string): AsyncGenerator<string> {
  for (const name of kept) {
    const found = await stat(path.join(dir, name)).catch(() => undefined);
    if (found?.isFile()) yield name;
    if (!found?.isDirectory()) continue;
    const entries = await readdir(path.join(dir, name), { recursive: true, withFileTypes: true });
    for (const entry of entries)
      if (entry.isFile())
        yield path.relative(dir, path.join(entry.parentPath, entry.name)).replaceAll("\\", "/");
  }
}

/** A file that went meanwhile, as an old part of the record does, is no part of the state any more. */
async function readKept(file: string): Promise<Buffer | undefined> {
  try {
    return await readFile(file);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw faultFromErrno(error, path.basename(file));
  }
}

/** A file of a backup. */
export interface BackupFile {
  /** Relative to the gateway's folder, with `/`. */
  readonly path: string;
  readonly bytes: Uint8Array;
}

/** A backup that was looked through. */
export interface OpenBackup extends Disposable {
  /** The version that wrote it. */
  readonly version: string;
  /** When it was made, in milliseconds since 1970. */
  readonly madeAt: number;
  /** Its files, one in memory at a time; `INTEGRITY_FAILURE` for one that is not as it was written. */
  files(): Generator<BackupFile>;
}

const pathShape = /^(?:[A-Za-z0-9][A-Za-z0-9._-]*\/){0,4}[A-Za-z0-9][A-Za-z0-9._-]*$/;

/**
 * Opens a backup and looks it through as a whole: `NOT_FOUND` when there is none, `INTEGRITY_FAILURE` when it is no
 * backup or is damaged, `VERSION_UNSUPPORTED` when a later version wrote it. Nothing is changed.
 */
export async function openBackup(file: string): Promise<OpenBackup> {
  const name = path.basename(file);
  try {
    await using found = await open(file, "r");
    if (!(await found.stat()).isFile()) throw noBackup(name, "it is no file");
  } catch (error) {
    throw faultFromErrno(error, name);
  }
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(file, { readOnly: true });
    const info = look(database, name);
    for (const _ of filesOf(database, name));
    const opened = database;
    return { ...info, files: () => filesOf(opened, name), [Symbol.dispose]: () => opened.close() };
  } catch (error) {
    database?.close();
    if (error instanceof Fault) throw error;
    throw noBackup(name, "it is damaged, or was never one", error);
  }
}

function look(database: DatabaseSync, name: string): Pick<OpenBackup, "version" | "madeAt"> {
  const whole = Object.values(database.prepare("PRAGMA integrity_check(1)").get() ?? {})[0];
  if (whole !== "ok") throw noBackup(name, "it is damaged", whole);
  const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'backup_info'").get();
  const info = table ? database.prepare("SELECT * FROM backup_info").get() : undefined;
  if (!info) throw noBackup(name, "it was never finished, or is another database");
  const format = Number(info["format"]);
  if (format > backupFormat) {
    throw new Fault("VERSION_UNSUPPORTED", `${name} was written by fairlead ${String(info["version"])}`, {
      details: { expected: backupFormat, actual: format },
      hint: "restore it with that version, or a newer one",
    });
  }
  if (digestTables(database) !== info["digest"]) throw noBackup(name, "it is not as it was written");
  return { version: String(info["version"]), madeAt: Number(info["made_at"]) };
}

/** A digest over every table with every row in it, but for the one that holds the digest. */
function digestTables(database: DatabaseSync): string {
  const hash = createHash("sha256");
  const tables = database
    .prepare(
      "SELECT name, sql FROM sqlite_schema WHERE name <> 'backup_info' AND sql IS NOT NULL ORDER BY type, name",
    )
    .all();
  for (const { name, sql } of tables) {
    hash.update(`${JSON.stringify([name, sql])}\n`);
    if (!/^CREATE TABLE/i.test(String(sql))) continue;
    const rows = database.prepare(`SELECT * FROM "${String(name).replaceAll('"', '""')}" ORDER BY rowid`);
    for (const row of rows.iterate()) {
      for (const value of Object.values(row)) {
        if (value instanceof Uint8Array) hash.update(`${value.byteLength}:`).update(value);
        else hash.update(`${JSON.stringify(typeof value === "bigint" ? String(value) : value)},`);
      }
      hash.update("\n");
    }
  }
  return hash.digest("hex");
}

function* filesOf(database: DatabaseSync, name: string): Generator<BackupFile> {
  for (const row of database.prepare("SELECT path, digest, bytes FROM backup_files").iterate()) {
    const { path: place, digest, bytes } = row;
    if (typeof place !== "string" || !pathShape.test(place) || !(bytes instanceof Uint8Array)) {
      throw noBackup(name, "it names a file outside of the gateway's folder");
    }
    if (digestOf(bytes) !== digest) throw noBackup(name, `its file ${place} is damaged`);
    yield { path: place, bytes };
  }
}

function noBackup(name: string, why: string, cause?: unknown): Fault {
  return new Fault("INTEGRITY_FAILURE", `${name} cannot be restored: ${why}`, {
    retryable: false,
    details: { path: name },
    hint: "take another backup; nothing was changed",
    cause,
  });
}

/** Takes the tables of the backup out of a copy of it, which is a store then. */
export function toStoreFile(file: string): void {
  const database = new DatabaseSync(file);
  try {
    database.exec("PRAGMA synchronous = FULL; DROP TABLE backup_files; DROP TABLE backup_info; VACUUM");
  } catch (error) {
    throw faultFromSqlite(error);
  } finally {
    database.close();
  }
  chmodSync(file, privateFileMode);
}
