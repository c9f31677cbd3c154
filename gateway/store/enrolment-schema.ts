import type { Kysely } from "kysely";

/** Step 3: codes whose machines wait for an administrator, the requests of those machines, and notes on nodes. */
export async function addEnrolmentRequests(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable("join_codes")
    .addColumn("require_approval", "integer", (column) => column.notNull().defaultTo(0))
    .execute();
  for (const table of ["join_codes", "nodes"]) {
    await db.schema
      .alterTable(table)
      .addColumn("note", "text", (column) => column.notNull().defaultTo(""))
      .execute();
  }
  await createRequests(db);
  await db.schema
    .createIndex("enrolment_requests_pending")
    .unique()
    .on("enrolment_requests")
    .column("key_digest")
    .where("state" as never, "=", "pending")
    .execute();
  await db.schema
    .createIndex("enrolment_requests_state")
    .on("enrolment_requests")
    .columns(["state", "number"])
    .execute();
}

const texts: readonly string[] = [
  "code_id",
  "key_digest",
  "state",
  "address",
  "source",
  "wished_name",
  "host_name",
  "platform",
  "agent_version",
  "workspaces_json",
  "alias",
  "labels_json",
  "profile",
  "note",
  "comparison_code",
];

async function createRequests(db: Kysely<unknown>): Promise<void> {
  let table = db.schema
    .createTable("enrolment_requests")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("number", "bigint", (column) => column.notNull().unique());
  for (const name of texts) table = table.addColumn(name, "text", (column) => column.notNull());
  for (const name of ["asked_at", "seen_at", "expires_at"])
    table = table.addColumn(name, "bigint", (column) => column.notNull());
  await table
    .addColumn("closed_at", "bigint")
    .addColumn("superseded_by", "text")
    .addColumn("node_id", "text")
    .execute();
}
