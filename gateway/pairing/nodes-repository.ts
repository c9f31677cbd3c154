import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { gatewayOwner, parseAlias } from "../../shared/names/alias.ts";
import { isUniqueViolation } from "../store/fault-from-sqlite.ts";
import type { Store, StoreDb } from "../store/store.ts";
import type { NodesTable } from "../store/tables.ts";
import { parseLabels } from "./labels.ts";
import { nearestName } from "./nearest.ts";
import { toNodeRecord } from "./node-rows.ts";
import type { LabelChange, NodeRecord, Nodes } from "./nodes.ts";
import { parseNote } from "./note.ts";

const minPrefixLength = 6;
const maxCandidates = 10;

/** The fleet over the store. */
export function createNodes(store: Store, clock: Clock): Nodes {
  return {
    list: () => listNodes(store.db),
    find: (id) => findNode(store.db, id),
    resolve: (reference) => resolveNode(store.db, reference),
    rename: (id, alias) => renameNode(store, { id, alias }),
    label: (id, change) => labelNode(store, { id, change }),
    note: (id, note) => noteNode(store, { id, note }),
    revoke: (id) => revokeNode(store, { id, now: clock.now() }),
  };
}

async function listNodes(db: StoreDb): Promise<readonly NodeRecord[]> {
  const rows = await db.selectFrom("nodes").selectAll().orderBy("alias").orderBy("paired_at").execute();
  const records = rows.map(toNodeRecord);
  const isLive = (record: NodeRecord): boolean => record.revokedAt === undefined;
  return [...records.filter(isLive), ...records.filter((record) => !isLive(record))];
}

async function findNode(db: StoreDb, id: string): Promise<NodeRecord | undefined> {
  const row = await db.selectFrom("nodes").selectAll().where("id", "=", id).executeTakeFirst();
  return row && toNodeRecord(row);
}

async function getNode(db: StoreDb, id: string): Promise<NodeRecord> {
  const node = await findNode(db, id);
  if (!node) throw new Fault("NOT_FOUND", `no node has the id ${id}`, { hint: "fairlead nodes ls" });
  return node;
}

async function resolveNode(db: StoreDb, reference: string): Promise<NodeRecord> {
  const named = await byAlias(db, reference);
  if (named) return toNodeRecord(named);
  const candidates = await byIdPrefix(db, reference);
  const [only] = candidates;
  if (only && candidates.length === 1) return toNodeRecord(only);
  if (only) {
    const names = candidates.map((row) => `${row.alias} (${row.id})`);
    throw new Fault("INVALID_ARGUMENT", `${reference} fits several nodes: ${names.join(", ")}`, {
      details: { field: "node", candidates: candidates.map((row) => row.id) },
      hint: "write more of the id",
    });
  }
  throw await notFound(db, reference);
}

/** Ids begin with a digit and aliases with a letter: a text is never both. */
async function byAlias(db: StoreDb, alias: string): Promise<NodesTable | undefined> {
  const rows = await db
    .selectFrom("nodes")
    .selectAll()
    .where("alias", "=", alias)
    .orderBy("revoked_at", "desc")
    .execute();
  // A revoked node answers to its alias until another one has it.
  return rows.find((row) => row.revoked_at === null) ?? rows[0];
}

async function byIdPrefix(db: StoreDb, prefix: string): Promise<readonly NodesTable[]> {
  if (prefix.length < minPrefixLength || !/^[0-9a-f]+$/.test(prefix)) return [];
  return await db
    .selectFrom("nodes")
    .selectAll()
    .where("id", "like", `${prefix}%`)
    .orderBy("id")
    .limit(maxCandidates)
    .execute();
}

async function notFound(db: StoreDb, reference: string): Promise<Fault> {
  const rows = await db.selectFrom("nodes").select("alias").where("revoked_at", "is", null).execute();
  const shown = JSON.stringify(reference.slice(0, 64));
  if (rows.length === 0) {
    return new Fault("NOT_FOUND", `no node is ${shown}: none is paired`, {
      details: { node: reference.slice(0, 64) },
      hint: "fairlead invite",
    });
  }
  const nearest = nearestName(
    reference,
    rows.map((row) => row.alias),
  );
  return new Fault("NOT_FOUND", `no node is ${shown}${nearest ? `; did you mean ${nearest}?` : ""}`, {
    details: { node: reference.slice(0, 64), ...(nearest ? { nearest } : {}) },
    hint: "fairlead nodes ls",
  });
}

async function renameNode(
  store: Store,
  wanted: { readonly id: string; readonly alias: string },
): Promise<NodeRecord> {
  const alias = parseAlias(wanted.alias);
  if (alias === gatewayOwner) throw aliasTaken(alias);
  try {
    const changed = await store.db
      .updateTable("nodes")
      .set({ alias })
      .where("id", "=", wanted.id)
      .where("revoked_at", "is", null)
      .executeTakeFirst();
    const node = await getNode(store.db, wanted.id);
    if (changed.numUpdatedRows === 0n) throw revokedFault(node);
    return node;
  } catch (error) {
    if (isUniqueViolation(error)) throw aliasTaken(alias);
    throw error;
  }
}

async function labelNode(
  store: Store,
  wanted: { readonly id: string; readonly change: LabelChange },
): Promise<NodeRecord> {
  return await store.transaction(async (db) => {
    const node = await getNode(db, wanted.id);
    if (node.revokedAt !== undefined) throw revokedFault(node);
    const removed = new Set(wanted.change.remove);
    const kept = Object.entries(node.labels).filter(([name]) => !removed.has(name));
    const labels = parseLabels({ ...Object.fromEntries(kept), ...wanted.change.set });
    await db
      .updateTable("nodes")
      .set({ labels_json: JSON.stringify(labels) })
      .where("id", "=", node.id)
      .execute();
    return { ...node, labels };
  });
}

async function noteNode(
  store: Store,
  wanted: { readonly id: string; readonly note: string },
): Promise<NodeRecord> {
  const note = parseNote(wanted.note);
  await store.db.updateTable("nodes").set({ note }).where("id", "=", wanted.id).execute();
  return await getNode(store.db, wanted.id);
}

/** What whoever wants an alias gets that another node has. */
export function aliasTaken(alias: string): Fault {
  const who = alias === gatewayOwner ? "the gateway itself" : "another node";
  return new Fault("ALREADY_EXISTS", `${who} is called ${alias}`, {
    details: { field: "alias", alias },
    hint: "choose another alias; fairlead nodes ls shows those in use",
  });
}

/** What a node gets, and whoever uses it, once it was revoked. */
export function revokedFault(node: NodeRecord): Fault {
  const since = node.revokedAt ?? 0;
  return new Fault("IDENTITY_REVOKED", `node ${node.alias} was revoked at ${new Date(since).toISOString()}`, {
    details: { nodeId: node.id, revokedAt: since },
    hint: "to pair the machine again: fairlead invite, then fairlead node join CODE on it",
  });
}

async function revokeNode(
  store: Store,
  wanted: { readonly id: string; readonly now: number },
): Promise<{ readonly node: NodeRecord; readonly already: boolean }> {
  const changed = await store.db
    .updateTable("nodes")
    .set({ revoked_at: wanted.now })
    .where("id", "=", wanted.id)
    .where("revoked_at", "is", null)
    .executeTakeFirst();
  return { node: await getNode(store.db, wanted.id), already: changed.numUpdatedRows === 0n };
}
