import { randomBytes } from "node:crypto";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { pickByPrefix } from "../store/pick-by-prefix.ts";
import type { Store, StoreTransaction } from "../store/store.ts";
import type { GrantsTable } from "../store/tables.ts";

/** What an agent may do with one path of one workspace, without being asked again. */
export interface GrantScope {
  readonly agent: string;
  /** The only session that has it; undefined: every session of the agent. */
  readonly sessionId: string | undefined;
  /** The only tool that it holds for; undefined: calls on files that come by no tool. */
  readonly tool: string | undefined;
  readonly nodeId: string;
  readonly workspace: string;
  /** What may be done: `read`, `write_tree`. */
  readonly kind: string;
  readonly requestedPath: string;
  /** What the path must lead to. */
  readonly canonicalPath: string;
}

/** A standing grant. */
export interface Grant extends GrantScope {
  readonly id: string;
  readonly createdAt: number;
  readonly expiresAt: number;
  /** The approval that it came from. */
  readonly approvalId: string;
  readonly grantedBy: string;
}

/** What is asked about grants: the exact words of a call. Without a canonical path any that was granted will do. */
export type GrantQuestion = Omit<GrantScope, "canonicalPath"> & {
  readonly canonicalPath?: string | undefined;
};

/** A grant that is to be stored. */
export interface NewGrant extends GrantScope {
  /** How long it holds, in milliseconds. */
  readonly lifeMs: number;
  readonly approvalId: string;
  readonly grantedBy: string;
}

/** The standing grants of a gateway; each is for one node, one kind and one path. */
export interface Grants {
  /** The grant that covers a call. Nothing in it is a pattern. */
  find(question: GrantQuestion): Grant | undefined;
  /** Stores one; an equal one that still holds is replaced. */
  add(grant: NewGrant): Promise<Grant>;
  /** Those that still hold, oldest first. */
  list(): readonly Grant[];
  /** Ends one, named by its id or a prefix that fits one only: `NOT_FOUND`, or `INVALID_ARGUMENT` with the candidates. */
  revoke(idOrPrefix: string): Promise<Grant>;
}

/** What grants stand on. */
export interface GrantsOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** Makes the record of a new grant, in its transaction. */
  readonly record: (db: StoreTransaction, grant: Grant) => Promise<void>;
  /** Hears of each change. */
  readonly onChange: () => void;
}

/** Reads the grants of a store; those that have ended are let go. */
export async function openGrants(options: GrantsOptions): Promise<Grants> {
  const { store, clock } = options;
  await store.db.deleteFrom("grants").where("expires_at", "<=", clock.now()).execute();
  const rows = await store.db.selectFrom("grants").selectAll().orderBy("created_at").orderBy("id").execute();
  return new StoredGrants(options, rows.map(toGrant));
}

class StoredGrants implements Grants {
  readonly #options: GrantsOptions;
  readonly #byPlace = new Map<string, Grant[]>();

  constructor(options: GrantsOptions, grants: readonly Grant[]) {
    this.#options = options;
    for (const grant of grants) this.#keep(grant);
  }

  find(question: GrantQuestion): Grant | undefined {
    const now = this.#options.clock.now();
    return this.#byPlace
      .get(placeOf(question))
      ?.find((grant) => grant.expiresAt > now && covers(grant, question));
  }

  async add({ lifeMs, ...scope }: NewGrant): Promise<Grant> {
    const { store, clock, record, onChange } = this.#options;
    const createdAt = clock.now();
    const id = randomBytes(8).toString("hex");
    const grant: Grant = { ...scope, id, createdAt, expiresAt: createdAt + lifeMs };
    const before = this.#byPlace.get(placeOf(scope))?.filter((one) => isSameScope(one, scope)) ?? [];
    await store.transaction(async (db) => {
      for (const { id: old } of before) await db.deleteFrom("grants").where("id", "=", old).execute();
      await db.deleteFrom("grants").where("expires_at", "<=", createdAt).execute();
      await db.insertInto("grants").values(toRow(grant)).execute();
      await record(db, grant);
    });
    for (const one of [...before, ...this.#lapsed()]) this.#drop(one);
    this.#keep(grant);
    onChange();
    return grant;
  }

  list(): readonly Grant[] {
    const now = this.#options.clock.now();
    const all = [...this.#byPlace.values()].flat().filter(({ expiresAt }) => expiresAt > now);
    return all.toSorted((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
  }

  async revoke(idOrPrefix: string): Promise<Grant> {
    const grant = pick(this.list(), idOrPrefix);
    await this.#options.store.db.deleteFrom("grants").where("id", "=", grant.id).execute();
    this.#drop(grant);
    this.#options.onChange();
    return grant;
  }

  #lapsed(): readonly Grant[] {
    const now = this.#options.clock.now();
    return [...this.#byPlace.values()].flat().filter(({ expiresAt }) => expiresAt <= now);
  }

  #keep(grant: Grant): void {
    const place = placeOf(grant);
    this.#byPlace.set(place, [...(this.#byPlace.get(place) ?? []), grant]);
  }

  #drop(grant: Grant): void {
    const place = placeOf(grant);
    const left = (this.#byPlace.get(place) ?? []).filter(({ id }) => id !== grant.id);
    if (left.length === 0) this.#byPlace.delete(place);
    else this.#byPlace.set(place, left);
  }
}

function placeOf({ nodeId, workspace, kind, requestedPath }: Omit<GrantQuestion, "canonicalPath">): string {
  return JSON.stringify([nodeId, workspace, kind, requestedPath]);
}

function covers(grant: Grant, question: GrantQuestion): boolean {
  return (
    grant.agent === question.agent &&
    (grant.sessionId === undefined || grant.sessionId === question.sessionId) &&
    grant.tool === question.tool &&
    (question.canonicalPath === undefined || grant.canonicalPath === question.canonicalPath)
  );
}

function isSameScope(grant: Grant, scope: GrantScope): boolean {
  return (
    grant.agent === scope.agent &&
    grant.sessionId === scope.sessionId &&
    grant.tool === scope.tool &&
    grant.canonicalPath === scope.canonicalPath
  );
}

function pick(grants: readonly Grant[], idOrPrefix: string): Grant {
  const found = grants.filter(({ id }) => idOrPrefix !== "" && id.startsWith(idOrPrefix.toLowerCase()));
  return pickByPrefix(found, { id: idOrPrefix, what: "grant", listedBy: "fairlead approvals grants ls" });
}

function toGrant(row: GrantsTable): Grant {
  return {
    id: row.id,
    agent: row.agent,
    sessionId: row.session_id ?? undefined,
    tool: row.tool ?? undefined,
    nodeId: row.node_id,
    workspace: row.workspace,
    kind: row.kind,
    requestedPath: row.requested_path,
    canonicalPath: row.canonical_path,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    approvalId: row.approval_id,
    grantedBy: row.granted_by,
  };
}

function toRow(grant: Grant): GrantsTable {
  return {
    id: grant.id,
    agent: grant.agent,
    session_id: grant.sessionId ?? null,
    tool: grant.tool ?? null,
    node_id: grant.nodeId,
    workspace: grant.workspace,
    kind: grant.kind,
    requested_path: grant.requestedPath,
    canonical_path: grant.canonicalPath,
    created_at: grant.createdAt,
    expires_at: grant.expiresAt,
    approval_id: grant.approvalId,
    granted_by: grant.grantedBy,
  };
}
