import type { Kysely } from "kysely";
import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { migrations, type Migration } from "./migrations.ts";
import type { Tables } from "./tables.ts";

/** What `migrate` takes beside the database. */
export interface MigrateOptions {
  /** Where time comes from. */
  readonly clock: Clock;
  /** The steps in order; those of this version by default. */
  readonly steps?: readonly Migration[];
}

/** Makes the table that counts the steps; for a database that was made this moment. */
export async function createSchemaTable(db: Kysely<Tables>): Promise<void> {
  await db.schema
    .createTable("schema_versions")
    .addColumn("version", "integer", (column) => column.primaryKey())
    .addColumn("applied_at", "bigint", (column) => column.notNull())
    .execute();
}

async function readSchema(db: Kysely<Tables>): Promise<number> {
  const row = await db
    .selectFrom("schema_versions")
    .select((columns) => columns.fn.max("version").as("version"))
    .executeTakeFirst();
  return row?.version ?? 0;
}

/**
 * Brings the schema up to the last step, one transaction a step, and says which number it has then. A store of a later
 * version is left alone: `VERSION_UNSUPPORTED` with both numbers in the details.
 */
export async function migrate(db: Kysely<Tables>, options: MigrateOptions): Promise<number> {
  const steps = options.steps ?? migrations;
  const newest = steps.at(-1)?.version ?? 0;
  let version = await readSchema(db);
  if (version > newest) {
    throw new Fault(
      "VERSION_UNSUPPORTED",
      `state.db has schema ${version}, this version knows up to ${newest}`,
      {
        details: { expected: newest, actual: version },
        hint: "start the newer fairlead that wrote it, or restore a backup",
      },
    );
  }
  for (const step of steps) {
    if (step.version <= version) continue;
    await db.transaction().execute(async (transaction) => {
      await step.up(transaction as unknown as Kysely<unknown>);
      await transaction
        .insertInto("schema_versions")
        .values({ version: step.version, applied_at: options.clock.now() })
        .execute();
    });
    version = step.version;
  }
  return version;
}
