import { randomBytes } from "node:crypto";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { AuditEntry } from "../audit/audit-record.ts";
import type { Audit } from "../audit/audit.ts";
import type { Store } from "../store/store.ts";

/** Makes the records of file operations: one for each, however it ends. */
export interface FileRecorder {
  /** Records what has ended. */
  record(entry: AuditEntry): Promise<void>;
  /**
   * Makes sure, before anything is changed, that there will be a record: fails with `DISK_FULL` or `IO_ERROR` where none
   * can be stored. `entry` is what is recorded when this process ends before the change does.
   */
  begin(entry: AuditEntry): Promise<BegunRecord>;
}

/** The record of a change that is under way. */
export interface BegunRecord {
  /** Records how it ended. */
  end(entry: AuditEntry): Promise<void>;
}

/** What recorders stand on. */
export interface FileRecorderOptions {
  readonly store: Store;
  readonly audit: Pick<Audit, "append" | "record">;
  readonly clock: Clock;
}

/** A recorder; what an earlier process left under way is recorded first, as something whose outcome nobody knows. */
export async function openFileRecorder(options: FileRecorderOptions): Promise<FileRecorder> {
  const { store, audit, clock } = options;
  await settleLeft(options);
  const forget = async (db: Store["db"], id: string): Promise<unknown> =>
    db.deleteFrom("file_changes").where("id", "=", id).execute();
  return {
    record: (entry) => audit.append(entry),
    begin: async (entry) => {
      const id = randomBytes(8).toString("hex");
      const row = { id, entry_json: JSON.stringify(entry), begun_at: clock.now() };
      await store.db.insertInto("file_changes").values(row).execute();
      return {
        end: (ended) =>
          store.transaction(async (db) => {
            await forget(db, id);
            await audit.record(db, ended);
          }),
      };
    },
  };
}

/** Rows that one transaction takes at the most. */
const batchRows = 200;

async function settleLeft({ store, audit }: FileRecorderOptions): Promise<void> {
  for (;;) {
    const rows = await store.db
      .selectFrom("file_changes")
      .selectAll()
      .orderBy("begun_at")
      .orderBy("id")
      .limit(batchRows)
      .execute();
    if (rows.length === 0) return;
    await store.transaction(async (db) => {
      for (const { id, entry_json: text } of rows) {
        // Written by this program, in this store.
        await audit.record(db, JSON.parse(text) as AuditEntry);
        await db.deleteFrom("file_changes").where("id", "=", id).execute();
      }
    });
  }
}
