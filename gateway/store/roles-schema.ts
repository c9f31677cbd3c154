import { type Kysely, sql } from "kysely";

/** Step 8 of the schema: users with roles; tokens that give a role, for whom they act, and when they were last used. */
export async function addRoles(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable("tokens")
    .addColumn("role", "text", (column) => column.notNull().defaultTo(""))
    .execute();
  await db.schema
    .alterTable("tokens")
    .addColumn("user_name", "text", (column) => column.notNull().defaultTo("local"))
    .execute();
  await db.schema.alterTable("tokens").addColumn("used_at", "bigint").execute();
  await db.schema
    .createTable("users")
    .addColumn("name", "text", (column) => column.primaryKey())
    .addColumn("role", "text", (column) => column.notNull())
    .addColumn("created_at", "bigint", (column) => column.notNull())
    .execute();
  // Whoever reaches the gateway's own socket.
  await sql`insert into users (name, role, created_at) values ('local', 'admin', 0)`.execute(db);
}
