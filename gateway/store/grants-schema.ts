import type { Kysely } from "kysely";

/** Step 7 of the schema: standing grants, what approvals may leave behind, and changes of files that are under way. */
export async function addGrants(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("grants")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("agent", "text", (column) => column.notNull())
    .addColumn("session_id", "text")
    .addColumn("tool", "text")
    .addColumn("node_id", "text", (column) => column.notNull())
    .addColumn("workspace", "text", (column) => column.notNull())
    .addColumn("kind", "text", (column) => column.notNull())
    .addColumn("requested_path", "text", (column) => column.notNull())
    .addColumn("canonical_path", "text", (column) => column.notNull())
    .addColumn("created_at", "bigint", (column) => column.notNull())
    .addColumn("expires_at", "bigint", (column) => column.notNull())
    .addColumn("approval_id", "text", (column) => column.notNull())
    .addColumn("granted_by", "text", (column) => column.notNull())
    .execute();
  await db.schema
    .alterTable("approvals")
    .addColumn("grantable", "integer", (column) => column.notNull().defaultTo(0))
    .execute();
  await db.schema.alterTable("approvals").addColumn("grant_ms", "bigint").execute();
  await db.schema
    .createTable("file_changes")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("entry_json", "text", (column) => column.notNull())
    .addColumn("begun_at", "bigint", (column) => column.notNull())
    .execute();
}
