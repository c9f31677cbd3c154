import { Fault } from "../../shared/fault/fault.ts";
import { parseAlias } from "../../shared/names/alias.ts";
import type { StoreDb, StoreTransaction } from "../store/store.ts";
import type { EnrolmentRequestsTable } from "../store/tables.ts";
import { addNode, findNodeByKey, newNodeId, readmitNode, type Reported } from "./admit-node.ts";
import { chooseAlias } from "./choose-alias.ts";
import { parseProfile } from "./codes.ts";
import { expireRequests } from "./enrolment-bounds.ts";
import { approveCommand } from "./enrolment-faults.ts";
import { changedFields } from "./enrolment-rows.ts";
import type { ApprovedAs } from "./enrolments.ts";
import { parseLabels } from "./labels.ts";
import { readLabels, toNodeRecord } from "./node-rows.ts";
import { revokedFault } from "./nodes-repository.ts";
import type { NodeRecord } from "./nodes.ts";

/** A request that was decided, as it stands now. */
export interface Decided {
  readonly row: EnrolmentRequestsTable;
  /** Whether the same had been decided before. */
  readonly already: boolean;
}

const minPrefixLength = 6;
const maxCandidates = 10;

/**
 * Admits the machine of a request. Request and node change in the caller's one transaction, and what is admitted is what
 * the request of this id shows: what a machine asks for meanwhile has another id. Its certificate it fetches by itself.
 */
export async function approveRequest(
  db: StoreTransaction,
  id: string,
  as: ApprovedAs & { readonly now: number },
): Promise<Decided & { readonly node: NodeRecord }> {
  const alias = as.alias ? parseAlias(as.alias) : "";
  const labels = parseLabels(as.labels ?? {});
  const profile = as.profile ? parseProfile(as.profile) : undefined;
  const row = await findRequest(db, id, as.now);
  if (row.state === "approved") return { row, already: true, node: await nodeOf(db, row) };
  if (row.state === "rejected") throw decidedOtherwise(row);
  const known = await findNodeByKey(db, row.key_digest);
  if (known && known.revoked_at !== null) throw revokedFault(toNodeRecord(known));
  const reported = reportedBy(row);
  const node = known
    ? await readmitNode(db, known, { ...reported, code_id: row.code_id })
    : await addNode(db, {
        ...reported,
        ...(await nameNode(db, row, { alias, now: as.now })),
        labels_json: JSON.stringify(parseLabels({ ...readLabels(row.labels_json), ...labels })),
        profile: profile ?? row.profile,
        note: row.note,
        key_digest: row.key_digest,
        code_id: row.code_id,
        paired_at: as.now,
        certificate_expires_at: 0,
      });
  return {
    row: await close(db, row, { state: "approved", closed_at: as.now, node_id: node.id }),
    already: false,
    node,
  };
}

/** Turns the machine of a request away. */
export async function rejectRequest(db: StoreTransaction, id: string, now: number): Promise<Decided> {
  const row = await findRequest(db, id, now);
  if (row.state === "rejected") return { row, already: true };
  if (row.state === "approved") throw decidedOtherwise(row);
  return { row: await close(db, row, { state: "rejected", closed_at: now }), already: false };
}

/** A machine was admitted some other way: its own request has nothing left to ask for. */
export async function closeAsAdmitted(
  db: StoreTransaction,
  node: { readonly id: string; readonly keyDigest: string },
  now: number,
): Promise<void> {
  await db
    .updateTable("enrolment_requests")
    .set({ state: "approved", closed_at: now, node_id: node.id })
    .where("key_digest", "=", node.keyDigest)
    .where("state", "=", "pending")
    .execute();
}

function reportedBy(row: EnrolmentRequestsTable): Reported {
  return { host_name: row.host_name, platform: row.platform, agent_version: row.agent_version };
}

async function nameNode(
  db: StoreTransaction,
  row: EnrolmentRequestsTable,
  by: { readonly alias: string; readonly now: number },
): Promise<{ readonly id: string; readonly alias: string }> {
  const code = await db
    .selectFrom("join_codes")
    .select("uses")
    .where("id", "=", row.code_id)
    .executeTakeFirst();
  const id = newNodeId();
  const alias = await chooseAlias(db, {
    named: by.alias,
    invited: row.alias,
    isForOne: code?.uses === 1,
    wish: row.wished_name,
    nodeId: id,
    now: by.now,
  });
  return { id, alias };
}

async function nodeOf(db: StoreDb, row: EnrolmentRequestsTable): Promise<NodeRecord> {
  const found = await db
    .selectFrom("nodes")
    .selectAll()
    .where("id", "=", row.node_id ?? "")
    .executeTakeFirst();
  if (!found) throw new Fault("INTERNAL", `the node of request ${row.id} is not in the store`);
  const node = toNodeRecord(found);
  if (node.revokedAt !== undefined) throw revokedFault(node);
  return node;
}

async function close(
  db: StoreTransaction,
  row: EnrolmentRequestsTable,
  changes: Partial<Pick<EnrolmentRequestsTable, "state" | "closed_at" | "node_id">>,
): Promise<EnrolmentRequestsTable> {
  await db.updateTable("enrolment_requests").set(changes).where("id", "=", row.id).execute();
  return { ...row, ...changes };
}

/** The request that is meant: pending, approved or rejected. */
async function findRequest(db: StoreTransaction, id: string, now: number): Promise<EnrolmentRequestsTable> {
  await expireRequests(db, now);
  const rows = await byPrefix(db, id.toLowerCase());
  const [only] = rows;
  if (!only) throw notFound(id);
  if (rows.length > 1) {
    throw new Fault("INVALID_ARGUMENT", `${id} fits several requests`, {
      details: { field: "id", candidates: rows.map((row) => row.id) },
      hint: "write more of the id",
    });
  }
  if (only.state === "expired") throw expired(only);
  if (only.state === "superseded") throw await superseded(db, only);
  return only;
}

async function byPrefix(db: StoreDb, id: string): Promise<readonly EnrolmentRequestsTable[]> {
  if (id.length < minPrefixLength || !/^[0-9a-f]+$/.test(id)) return [];
  return await db
    .selectFrom("enrolment_requests")
    .selectAll()
    .where("id", "like", `${id}%`)
    .orderBy("number")
    .limit(maxCandidates)
    .execute();
}

function notFound(id: string): Fault {
  const shown = JSON.stringify(id.slice(0, 64));
  return new Fault("NOT_FOUND", `no machine waits as request ${shown}`, {
    details: { requestId: id.slice(0, 64) },
    hint: "fairlead nodes pending lists those that wait",
  });
}

function expired(row: EnrolmentRequestsTable): Fault {
  const at = new Date(row.expires_at).toISOString();
  return new Fault("NOT_FOUND", `request ${row.id} ended undecided at ${at}`, {
    details: { requestId: row.id, reason: "expired" },
    hint: "make a new code with fairlead invite --require-approval, and join with it",
  });
}

async function superseded(db: StoreDb, row: EnrolmentRequestsTable): Promise<Fault> {
  const current = await db
    .selectFrom("enrolment_requests")
    .selectAll()
    .where("id", "=", row.superseded_by ?? "")
    .executeTakeFirst();
  if (!current) return notFound(row.id);
  const changed = changedFields(row, current);
  const what = changed.length === 0 ? "through another code" : `with another ${changed.join(", ")}`;
  return new Fault("CONFLICT", `the machine of request ${row.id} has asked again ${what}`, {
    details: { requestId: current.id, changed, expected: row.id, actual: current.id },
    hint: `look at it with fairlead nodes pending, then ${approveCommand(current.id)}`,
  });
}

function decidedOtherwise(row: EnrolmentRequestsTable): Fault {
  const at = new Date(row.closed_at ?? 0).toISOString();
  return new Fault("CONFLICT", `request ${row.id} was ${row.state} at ${at}`, {
    details: { requestId: row.id, actual: row.state },
    hint:
      row.state === "approved"
        ? `the machine is node ${row.node_id ?? ""}: fairlead nodes revoke ${row.node_id ?? ""}`
        : "make a new code with fairlead invite --require-approval, and join with it",
  });
}
