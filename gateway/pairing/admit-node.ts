import { randomBytes } from "node:crypto";
import type { StoreDb, StoreTransaction } from "../store/store.ts";
import type { NodesTable } from "../store/tables.ts";
import { toNodeRecord } from "./node-rows.ts";
import type { NodeRecord } from "./nodes.ts";

/** What a machine says about itself, made harmless. */
export type Reported = Pick<NodesTable, "host_name" | "platform" | "agent_version">;

/** A node as it begins. */
export type NewNode = Reported &
  Pick<
    NodesTable,
    | "id"
    | "alias"
    | "labels_json"
    | "profile"
    | "note"
    | "key_digest"
    | "code_id"
    | "paired_at"
    | "certificate_expires_at"
  > &
  Partial<Pick<NodesTable, "issuer_pin">>;

/** Adds a node; the caller's transaction has made sure that its alias and its key are no other's. */
export async function addNode(db: StoreTransaction, node: NewNode): Promise<NodeRecord> {
  const row: NodesTable = { issuer_pin: "", trusted_json: "[]", ...node, revoked_at: null };
  await db.insertInto("nodes").values(row).execute();
  return toNodeRecord(row);
}

/** A machine that is known enrols again. What an administrator set stays; what it says about itself is written anew. */
export async function readmitNode(
  db: StoreTransaction,
  known: NodesTable,
  changes: Reported & Partial<Pick<NodesTable, "code_id" | "certificate_expires_at" | "issuer_pin">>,
): Promise<NodeRecord> {
  await db.updateTable("nodes").set(changes).where("id", "=", known.id).execute();
  return toNodeRecord({ ...known, ...changes });
}

/** The node that has a key, revoked or not. */
export async function findNodeByKey(db: StoreDb, keyDigest: string): Promise<NodesTable | undefined> {
  return await db.selectFrom("nodes").selectAll().where("key_digest", "=", keyDigest).executeTakeFirst();
}

/** 80 random bits; the first digit is a decimal one, so that no id is ever an alias. */
export function newNodeId(): string {
  const [first = 0, ...rest] = randomBytes(11);
  return `${first % 10}${Buffer.from(rest).toString("hex").slice(0, 19)}`;
}
