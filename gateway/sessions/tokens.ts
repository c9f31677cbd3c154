import { createHash, randomBytes } from "node:crypto";
import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { Lease } from "../../shared/lifetime/lease.ts";
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
  readonly createdAt: number;
  readonly expiresAt: number;
}

/** A token that was presented and holds. */
export interface HeldToken {
  readonly token: TokenRecord;
  /** Ends when the token is revoked. */
  readonly lease: Lease;
}

/** What a new token opens: a session, or the sessions of an agent. */
export interface TokenRequest {
  readonly sessionId?: string;
  readonly agent?: string;
  /** How long it lives, in milliseconds; 90 days by default, 400 days at most. */
  readonly ttlMs?: number;
}

/** The tokens of a gateway. Only digests of their texts are kept. */
export interface Tokens {
  /** A new token; its text is shown this once. */
  create(request: TokenRequest): Promise<{ readonly token: TokenRecord; readonly text: string }>;
  /** Those that hold, newest first. */
  list(): Promise<readonly TokenRecord[]>;
  /** The token of that text; undefined when there is none, or it has expired or is revoked. */
  find(text: string): Promise<HeldToken | undefined>;
  /** Ends one, named by its id or a prefix that fits one only, and everything that goes on under it. */
  revoke(id: string): Promise<TokenRecord>;
}

const dayMs = 24 * 60 * 60 * 1_000;
const defaultTtlMs = 90 * dayMs;
const maxTtlMs = 400 * dayMs;
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
    const { sessionId = "", agent = "", ttlMs = defaultTtlMs } = request;
    if ((sessionId === "") === (agent === "")) {
      throw new Fault(
        "INVALID_ARGUMENT",
        "a token opens a session or the sessions of an agent: name one of both",
        {
          hint: "fairlead tokens create --session ID",
          details: { field: "session" },
        },
      );
    }
    if (!Number.isInteger(ttlMs) || ttlMs < 1_000 || ttlMs > maxTtlMs) {
      throw new Fault("INVALID_ARGUMENT", `a token lives between 1 s and 400 days, not ${ttlMs} ms`, {
        details: { field: "ttl", limit: maxTtlMs },
      });
    }
    if (sessionId !== "") await this.#requireSession(sessionId);
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

  async find(text: string): Promise<HeldToken | undefined> {
    if (!textShape.test(text)) return undefined;
    const row = await this.#store.db
      .selectFrom("tokens")
      .selectAll()
      .where("hash", "=", hashOf(text))
      .where("revoked_at", "is", null)
      .where("expires_at", ">", this.#clock.now())
      .executeTakeFirst();
    if (!row) return undefined;
    const lease =
      this.#leases.get(row.id) ?? new Lease({ what: `token ${row.id}`, epoch: 1, ended: revokedFault });
    this.#leases.set(row.id, lease);
    return { token: toRecord(row), lease };
  }

  async revoke(id: string): Promise<TokenRecord> {
    const row = await this.#findById(id);
    await this.#store.db
      .updateTable("tokens")
      .set({ revoked_at: this.#clock.now() })
      .where("id", "=", row.id)
      .where("revoked_at", "is", null)
      .execute();
    this.#leases.get(row.id)?.end("revoked");
    this.#leases.delete(row.id);
    return toRecord(row);
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

function revokedFault(): Fault {
  return new Fault("UNAUTHENTICATED", "the token was revoked", { hint: "fairlead tokens create" });
}

function toRecord(row: TokensTable): TokenRecord {
  return {
    id: row.id,
    sessionId: row.session_id ?? undefined,
    agent: row.agent === "" ? undefined : row.agent,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
  };
}
