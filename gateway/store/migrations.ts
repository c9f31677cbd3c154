import type { Kysely } from "kysely";
import { addEnrolmentRequests } from "./enrolment-schema.ts";
import { addGrants } from "./grants-schema.ts";
import { addRoles } from "./roles-schema.ts";

/** One step of the schema. It runs in a transaction and is never changed once released. */
export interface Migration {
  /** The schema's number after it. */
  readonly version: number;
  /** What it does; it may not rely on any type of today. */
  readonly up: (db: Kysely<unknown>) => Promise<void>;
}

/** All steps in order. */
export const migrations: readonly Migration[] = [
  { version: 1, up: createIdentities },
  { version: 2, up: addDecisions },
  { version: 3, up: addEnrolmentRequests },
  { version: 4, up: addAudit },
  { version: 5, up: addPresences },
  { version: 6, up: addIdentityFacts },
  { version: 7, up: addGrants },
  { version: 8, up: addRoles },
];

async function createIdentities(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("nodes")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("alias", "text", (column) => column.notNull())
    .addColumn("labels_json", "text", (column) => column.notNull())
    .addColumn("profile", "text", (column) => column.notNull())
    .addColumn("key_digest", "text", (column) => column.notNull().unique())
    .addColumn("code_id", "text", (column) => column.notNull())
    .addColumn("paired_at", "bigint", (column) => column.notNull())
    .addColumn("certificate_expires_at", "bigint", (column) => column.notNull())
    .addColumn("revoked_at", "bigint")
    .addColumn("host_name", "text", (column) => column.notNull())
    .addColumn("platform", "text", (column) => column.notNull())
    .execute();
  await db.schema
    .createIndex("nodes_alias")
    .unique()
    .on("nodes")
    .column("alias")
    .where("revoked_at" as never, "is", null)
    .execute();
  await db.schema
    .createTable("join_codes")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("secret_hash", "text", (column) => column.notNull().unique())
    .addColumn("purpose", "text", (column) => column.notNull())
    .addColumn("alias", "text", (column) => column.notNull())
    .addColumn("labels_json", "text", (column) => column.notNull())
    .addColumn("profile", "text", (column) => column.notNull())
    .addColumn("uses", "integer", (column) => column.notNull())
    .addColumn("uses_left", "integer", (column) => column.notNull())
    .addColumn("created_at", "bigint", (column) => column.notNull())
    .addColumn("expires_at", "bigint", (column) => column.notNull())
    .execute();
  await createSettings(db);
}

async function createSettings(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("settings")
    .addColumn("key", "text", (column) => column.primaryKey())
    .addColumn("value_json", "text", (column) => column.notNull())
    .addColumn("updated_at", "bigint", (column) => column.notNull())
    .execute();
  await db.schema
    .createTable("link_generations")
    .addColumn("node_id", "text", (column) => column.primaryKey())
    .addColumn("generation", "bigint", (column) => column.notNull())
    .execute();
}

async function addDecisions(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable("nodes")
    .addColumn("agent_version", "text", (column) => column.notNull().defaultTo(""))
    .execute();
  await createSessions(db);
  await db.schema
    .createTable("approvals")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("state", "text", (column) => column.notNull())
    .addColumn("title", "text", (column) => column.notNull())
    .addColumn("detail", "text", (column) => column.notNull())
    .addColumn("agent", "text", (column) => column.notNull())
    .addColumn("session_id", "text")
    .addColumn("node_id", "text")
    .addColumn("rule", "text", (column) => column.notNull())
    .addColumn("digest", "text", (column) => column.notNull())
    .addColumn("asked_at", "bigint", (column) => column.notNull())
    .addColumn("expires_at", "bigint", (column) => column.notNull())
    .addColumn("decided_at", "bigint")
    .addColumn("decided_by", "text")
    .execute();
  await db.schema
    .createTable("name_assignments")
    .addColumn("kind", "text", (column) => column.notNull())
    .addColumn("name", "text", (column) => column.notNull())
    .addColumn("owner", "text", (column) => column.notNull())
    .addColumn("node_id", "text", (column) => column.notNull())
    .addColumn("assigned_at", "bigint", (column) => column.notNull())
    .addPrimaryKeyConstraint("name_assignments_key", ["kind", "name"])
    .execute();
  await createFileReads(db);
}

async function createFileReads(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("file_reads")
    .addColumn("user", "text", (column) => column.notNull())
    .addColumn("node_id", "text", (column) => column.notNull())
    .addColumn("workspace", "text", (column) => column.notNull())
    .addColumn("path", "text", (column) => column.notNull())
    .addColumn("digest", "text", (column) => column.notNull())
    .addColumn("read_at", "bigint", (column) => column.notNull())
    .addPrimaryKeyConstraint("file_reads_key", ["user", "node_id", "workspace", "path"])
    .execute();
}

async function createSessions(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("sessions")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("agent", "text", (column) => column.notNull())
    .addColumn("node_id", "text")
    .addColumn("workspace", "text")
    .addColumn("state", "text", (column) => column.notNull())
    .addColumn("reason", "text", (column) => column.notNull())
    .addColumn("since", "bigint", (column) => column.notNull())
    .addColumn("opened_at", "bigint", (column) => column.notNull())
    .addColumn("closed_at", "bigint")
    .addColumn("snapshot", "text")
    .addColumn("surface", "text")
    .execute();
  await db.schema
    .createTable("tokens")
    .addColumn("id", "text", (column) => column.primaryKey())
    .addColumn("hash", "text", (column) => column.notNull().unique())
    .addColumn("session_id", "text")
    .addColumn("agent", "text", (column) => column.notNull())
    .addColumn("created_at", "bigint", (column) => column.notNull())
    .addColumn("expires_at", "bigint", (column) => column.notNull())
    .addColumn("revoked_at", "bigint")
    .execute();
}

async function addPresences(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("presences")
    .addColumn("node_id", "text", (column) => column.primaryKey())
    .addColumn("state", "text", (column) => column.notNull())
    .addColumn("reason", "text", (column) => column.notNull())
    .addColumn("since", "bigint", (column) => column.notNull())
    .addColumn("seen_at", "bigint", (column) => column.notNull())
    .addColumn("generation", "bigint", (column) => column.notNull())
    .addColumn("address", "text", (column) => column.notNull())
    .execute();
}

async function addAudit(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .createTable("audit_head")
    .addColumn("id", "integer", (column) => column.primaryKey())
    .addColumn("sequence", "bigint", (column) => column.notNull())
    .addColumn("hash", "text", (column) => column.notNull())
    .execute();
  await db.schema
    .createTable("audit_pending")
    .addColumn("sequence", "bigint", (column) => column.primaryKey())
    .addColumn("hash", "text", (column) => column.notNull())
    .addColumn("line", "text", (column) => column.notNull())
    .execute();
  await db.schema
    .createTable("audit_segments")
    .addColumn("number", "integer", (column) => column.primaryKey())
    .addColumn("first_sequence", "bigint", (column) => column.notNull())
    .addColumn("first_previous", "text", (column) => column.notNull())
    .addColumn("opened_at", "bigint", (column) => column.notNull())
    .execute();
}

async function addIdentityFacts(db: Kysely<unknown>): Promise<void> {
  await db.schema
    .alterTable("nodes")
    .addColumn("issuer_pin", "text", (column) => column.notNull().defaultTo(""))
    .execute();
  await db.schema
    .alterTable("nodes")
    .addColumn("trusted_json", "text", (column) => column.notNull().defaultTo("[]"))
    .execute();
  await db.schema
    .alterTable("link_generations")
    .addColumn("presented", "bigint", (column) => column.notNull().defaultTo(0))
    .execute();
  await db.schema.alterTable("presences").addColumn("clone_json", "text").execute();
}
