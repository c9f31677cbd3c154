import { chmodSync, closeSync, openSync, readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { faultFromErrno } from "../fault/fault-from-errno.ts";
import { Fault } from "../fault/fault.ts";

/**
 * One process a home. The lock itself is one of the kernel, taken through SQLite (the only such lock that Node has
 * without an addon): it ends with its process however that dies, so there is no stale lock and a process id that was
 * given to another program means nothing. `lock.json` beside it only says who holds it, for the message.
 */

/** Holds a home for this process until it is disposed. */
export interface HomeLock extends Disposable {
  /** The folder that is held. */
  readonly dir: string;
}

/** What `lockHome` takes beside the folder. */
export interface HomeLockOptions {
  /** The program as people know it: `fairlead gateway run`. */
  readonly program: string;
}

interface Holder {
  readonly pid: number;
  readonly startedAt: string;
  readonly program: string;
}

const busy = 5;

// A database that nobody refers to is closed by the garbage collector, and the lock would go with it.
const held = new Set<DatabaseSync>();

/**
 * Takes the folder, which must exist, for this process. `CONFLICT` when another process has it, with `pid`, `program`
 * and `startedAt` of that process in the details. The caller disposes the lock.
 */
export function lockHome(dir: string, options: HomeLockOptions): HomeLock {
  const note = join(dir, "lock.json");
  let database: DatabaseSync | undefined;
  try {
    database = openLock(join(dir, "lock"), 0);
    writeNote(note, options.program);
  } catch (error) {
    database?.close();
    throw isBusy(error) ? heldFault(readNote(note)) : faultFromErrno(error, `the lock of ${basename(dir)}`);
  }
  const lock = database;
  held.add(lock);
  return {
    dir,
    [Symbol.dispose]: () => {
      if (held.delete(lock)) lock.close();
    },
  };
}

/**
 * Holds `path`, a file that is made beside what it guards, until it is disposed; for a change that reads, edits and writes.
 * Waits up to `waitMs` for another process, and holds this one up meanwhile; then `CONFLICT`.
 */
export function lockFile(path: string, options: { readonly waitMs: number }): Disposable {
  try {
    const database = openLock(path, options.waitMs);
    return { [Symbol.dispose]: () => database.close() };
  } catch (error) {
    if (!isBusy(error)) throw faultFromErrno(error, basename(path));
    throw new Fault("CONFLICT", `another process has held ${basename(path)} for ${options.waitMs} ms`, {
      hint: "repeat the command",
    });
  }
}

function openLock(path: string, timeout: number): DatabaseSync {
  closeSync(openSync(path, "a", 0o600));
  chmodSync(path, 0o600);
  const database = new DatabaseSync(path, { timeout });
  try {
    // A commit would give the lock back: the transaction stays open as long as the home is held.
    database.exec("PRAGMA journal_mode = OFF; BEGIN EXCLUSIVE");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

function writeNote(path: string, program: string): void {
  const startedAt = new Date(Date.now() - process.uptime() * 1000).toISOString();
  const holder: Holder = { pid: process.pid, startedAt, program };
  writeFileSync(path, `${JSON.stringify(holder)}\n`, { mode: 0o600 });
}

function readNote(path: string): Holder | undefined {
  try {
    const { pid, startedAt, program } = JSON.parse(readFileSync(path, "utf8")) as Partial<Holder>;
    if (typeof pid !== "number" || typeof startedAt !== "string" || typeof program !== "string")
      return undefined;
    return { pid, startedAt, program };
  } catch {
    // The holder is writing it at this moment, or cannot: the lock holds all the same.
    return undefined;
  }
}

function heldFault(holder: Holder | undefined): Fault {
  if (!holder) return new Fault("CONFLICT", "another process holds this home");
  const { pid, program, startedAt } = holder;
  return new Fault("CONFLICT", `process ${pid} (${program}, since ${startedAt}) holds this home`, {
    details: { pid, program, startedAt },
    hint: `stop process ${pid}, or choose another home with --home`,
  });
}

function isBusy(error: unknown): boolean {
  return error instanceof Error && "errcode" in error && error.errcode === busy;
}
