import { createHash, randomBytes } from "node:crypto";
import { Fault } from "../../shared/fault/fault.ts";
import type { Role } from "../../shared/gen/fairlead/v1/options_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { Lease } from "../../shared/lifetime/lease.ts";
import { findRole, nameOfRole } from "../../shared/rpc/principal.ts";
import { pickByPrefix, prefixCandidates } from "../store/pick-by-prefix.ts";
import type { Store } from "../store/store.ts";
import type { TokensTable } from "../store/tables.ts";

/** A token, without its text. */
export interface TokenRecord {
  readonly id: string;
  /** The one session that it opens. */
  readonly sessionId: string | undefined;
  /** The agent whose latest session it opens. */
  readonly agent: string | undefined;
  /** What its holder may do on the gateway itself. */
  readonly role: Role | undefined;
  /** The user that it acts for. */
  readonly user: string;
  readonly createdAt: number;
  readonly expiresAt: number;
  /** When it was last used, exact to a minute. */
  readonly usedAt: number | undefined;
}

/** A token that was presented and holds. */
export interface HeldToken {
  readonly token: TokenRecord;
  /** Ends when the token is revoked. */
  readonly lease: Lease;
}

/** What a new token opens: a session, the sessions of an agent, or the gateway itself in a role. */
export interface TokenRequest {
  readonly sessionId?: string;
  readonly agent?: string;
  readonly role?: Role;
  /** The user that it acts for; `local` by default. */
  readonly user?: string;
  /** How long it lives, in milliseconds; 90 days by default, 400 days at most. */
  readonly ttlMs?: number;
}

/** The tokens of a gateway. Only digests of their texts are kept. */
export interface Tokens {
  /** A new token; its text is shown this once. */
  create(request: TokenRequest): Promise<{ readonly token: TokenRecord; readonly text: string }>;
  /** Those that hold, newest first. */
  list(): Promise<readonly TokenRecord[]>;
  /** The token of that text; `UNAUTHENTICATED` when there is none, it was revoked or has expired, which says when. */
  require(text: string): Promise<HeldToken>;
  /** Ends one, named by its id or a prefix that fits one only, and everything that goes on under it. */
  revoke(id: string): Promise<TokenRecord>;
  /** Ends all that act for a user. */
  revokeOf(user: string): Promise<void>;
  /** Ends what goes on under the tokens of a user; what begins afterwards has the role that holds then. */
  refresh(user: string): Promise<void>;
}

const dayMs = 24 * 60 * 60 * 1_000;
const defaultTtlMs = 90 * dayMs;
const maxTtlMs = 400 * dayMs;
/** How exact the time of the last use is: a write a call would be too many. */
const usedExactMs = 60_000;
const createHint = "fairlead tokens create";
const textShape = /^flt_[0-9a-f]{16}_[A-Za-z0-9_-]{43}$/;

/** The tokens of a store. */
export function createTokens(options: { readonly store: Pick<Store, "db">; readonly clock: Clock }): Tokens {
  return new StoredTokens(options);
}

class StoredTokens implements Tokens {
  readonly #store: Pick<Store, "db">;
  readonly #clock: Clock;
  /** Of tokens in use by this process. */
  readonly #leases = new Map<string, Lease>();

  constructor(options: { readonly store: Pick<Store, "db">; readonly clock: Clock }) {
    this.#store = options.store;
    this.#clock = options.clock;
  }

  async create(request: TokenRequest): Promise<{ readonly token: TokenRecord; readonly text: string }> {
    const { sessionId = "", agent = "", role, user = "local", ttlMs = defaultTtlMs } = request;
    checkPurpose([sessionId, agent, role === undefined ? "" : nameOfRole(role)]);
    if (!Number.isInteger(ttlMs) || ttlMs < 1_000 || ttlMs > maxTtlMs) {
      throw new Fault("INVALID_ARGUMENT", `a token lives between 1 s and 400 days, not ${ttlMs} ms`, {
        details: { field: "ttl", limit: maxTtlMs },
      });
    }
    if (sessionId !== "") await this.#requireSession(sessionId);
    if (role !== undefined) await this.#requireUser(user, role);
    const id = randomBytes(8).toString("hex");
    const text = `flt_${id}_${randomBytes(32).toString("base64url")}`;
    const now = this.#clock.now();
    const row: TokensTable = {
      id,
      hash: hashOf(text),
      session_id: sessionId === "" ? null : sessionId,
      agent,
      created_at: now,
      expires_at: now + ttlMs,
      revoked_at: null,
      role: role === undefined ? "" : nameOfRole(role),
      user_name: user,
      used_at: null,
    };
    await this.#store.db.insertInto("tokens").values(row).execute();
    return { token: toRecord(row), text };
  }

  async list(): Promise<readonly TokenRecord[]> {
    const rows = await this.#store.db
      .selectFrom("tokens")
      .selectAll()
      .where("revoked_at", "is", null)
      .where("expires_at", ">", this.#clock.now())
      .orderBy("created_at", "desc")
      .limit(10_000)
      .execute();
    return rows.map(toRecord);
  }

  async require(text: string): Promise<HeldToken> {
    const row = textShape.test(text)
      ? await this.#store.db
          .selectFrom("tokens")
          .selectAll()
          .where("hash", "=", hashOf(text))
          .executeTakeFirst()
      : undefined;
    if (!row) throw new Fault("UNAUTHENTICATED", "the token is not valid", { hint: createHint });
    if (row.revoked_at !== null) throw revokedFault();
    const now = this.#clock.now();
    if (row.expires_at <= now) throw expiredFault(row);
    const role = await this.#roleOf(row);
    if (now - (row.used_at ?? 0) >= usedExactMs) await this.#used(row.id, now);
    const lease =
      this.#leases.get(row.id) ?? new Lease({ what: `token ${row.id}`, epoch: 1, ended: revokedFault });
    this.#leases.set(row.id, lease);
    return { token: { ...toRecord(row), role }, lease };
  }

  async revoke(id: string): Promise<TokenRecord> {
    const row = await this.#findById(id);
    await this.#store.db
      .updateTable("tokens")
      .set({ revoked_at: this.#clock.now() })
      .where("id", "=", row.id)
      .where("revoked_at", "is", null)
      .execute();
    this.#endLease(row.id);
    return toRecord(row);
  }

  async revokeOf(user: string): Promise<void> {
    const rows = await this.#idsOf(user);
    await this.#store.db
      .updateTable("tokens")
      .set({ revoked_at: this.#clock.now() })
      .where("user_name", "=", user)
      .where("revoked_at", "is", null)
      .execute();
    for (const { id } of rows) this.#endLease(id);
  }

  async refresh(user: string): Promise<void> {
    for (const { id } of await this.#idsOf(user)) this.#endLease(id);
  }

  #idsOf(user: string): Promise<readonly { readonly id: string }[]> {
    return this.#store.db
      .selectFrom("tokens")
      .select("id")
      .where("user_name", "=", user)
      .where("revoked_at", "is", null)
      .execute();
  }

  #endLease(id: string): void {
    this.#leases.get(id)?.end("revoked");
    this.#leases.delete(id);
  }

  /** A token never gives more than its user has at this moment. */
  async #roleOf(row: TokensTable): Promise<Role | undefined> {
    const role = findRole(row.role);
    if (role === undefined) return undefined;
    const has = await this.#roleOfUser(row.user_name);
    if (has === undefined) throw revokedFault();
    return has < role ? has : role;
  }

  async #roleOfUser(name: string): Promise<Role | undefined> {
    const row = await this.#store.db
      .selectFrom("users")
      .select("role")
      .where("name", "=", name)
      .executeTakeFirst();
    return row && findRole(row.role);
  }

  async #requireUser(name: string, role: Role): Promise<void> {
    const has = await this.#roleOfUser(name);
    if (has === undefined) {
      throw new Fault("NOT_FOUND", `there is no user ${name.slice(0, 64)}`, {
        hint: "fairlead users ls",
        details: { field: "user" },
      });
    }
    if (has >= role) return;
    throw new Fault("INVALID_ARGUMENT", `${name} is ${nameOfRole(has)}: no token gives more`, {
      hint: `fairlead users role ${name} ${nameOfRole(role)}`,
      details: { field: "role", limit: nameOfRole(has) },
    });
  }

  async #used(id: string, now: number): Promise<void> {
    await this.#store.db.updateTable("tokens").set({ used_at: now }).where("id", "=", id).execute();
  }

  async #requireSession(id: string): Promise<void> {
    const open = await this.#store.db
      .selectFrom("sessions")
      .select("id")
      .where("id", "=", id)
      .where("state", "=", "open")
      .executeTakeFirst();
    if (open) return;
    throw new Fault("NOT_FOUND", `there is no open session ${id.slice(0, 64)}`, {
      hint: "fairlead sessions ls",
      details: { field: "session" },
    });
  }

  async #findById(id: string): Promise<TokensTable> {
    const rows = /^[0-9a-f]{1,16}$/.test(id)
      ? await this.#store.db
          .selectFrom("tokens")
          .selectAll()
          .where("id", "like", `${id}%`)
          .limit(prefixCandidates)
          .execute()
      : [];
    return pickByPrefix(rows, { id, what: "token", listedBy: "fairlead tokens ls" });
  }
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

function checkPurpose(purposes: readonly string[]): void {
  if (purposes.filter((purpose) => purpose !== "").length === 1) return;
  throw new Fault("INVALID_ARGUMENT", "a token opens a session, the sessions of an agent, or gives a role", {
    hint: "fairlead tokens create --session ID",
    details: { field: "session" },
  });
}

function revokedFault(): Fault {
  return new Fault("UNAUTHENTICATED", "the token was revoked", { hint: createHint });
}

function expiredFault({ expires_at: expiresAt }: Pick<TokensTable, "expires_at">): Fault {
  const at = new Date(expiresAt).toISOString();
  return new Fault("UNAUTHENTICATED", `the token expired at ${at}`, {
    hint: createHint,
    details: { expiredAt: at },
  });
}

/** What a call gets that was under way when its token expired. */
export function tokenEndedFault(token: Pick<TokenRecord, "expiresAt">): Fault {
  return expiredFault({ expires_at: token.expiresAt });
}

function toRecord(row: TokensTable): TokenRecord {
  return {
    id: row.id,
    sessionId: row.session_id ?? undefined,
    agent: row.agent === "" ? undefined : row.agent,
    role: findRole(row.role),
    user: row.user_name,
    usedAt: row.used_at ?? undefined,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  };
}
