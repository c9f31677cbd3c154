import { randomBytes } from "node:crypto";
import { Fault } from "../../shared/fault/fault.ts";
import { raceSignal, type Clock } from "../../shared/lifetime/clock.ts";
import { pickByPrefix, prefixCandidates } from "../store/pick-by-prefix.ts";
import type { Store } from "../store/store.ts";
import type { ApprovalsTable } from "../store/tables.ts";

/** How far an approval is. `used`: it was allowed and its call went on. */
export type ApprovalState = "waiting" | "allowed" | "denied" | "expired" | "cancelled" | "used";

/** Something that waits, or waited, for a person. */
export interface Approval {
  readonly id: string;
  readonly state: ApprovalState;
  readonly title: string;
  /** What the answer covers, in full. */
  readonly detail: string;
  readonly agent: string;
  readonly sessionId: string | undefined;
  readonly nodeId: string | undefined;
  readonly rule: string;
  /** Digest of what the answer covers. */
  readonly digest: string;
  readonly askedAt: number;
  readonly expiresAt: number;
  readonly decidedBy: string;
  /** How long the grant is to hold that is to come of it, in milliseconds; undefined: none is. */
  readonly grantMs: number | undefined;
}

/** What a person is asked. */
export interface ApprovalQuestion {
  /** One line. */
  readonly title: string;
  /** What the answer covers, in full. */
  readonly detail: string;
  readonly agent: string;
  readonly sessionId?: string | undefined;
  readonly nodeId?: string | undefined;
  readonly rule: string;
  /** Digest over everything that the answer covers: another call has another. */
  readonly digest: string;
  /** Whether who allows it may also say that the same is not to be asked again for a time; no by default. */
  readonly mayGrant?: boolean;
}

/** What a person says. */
export interface ApprovalAnswer {
  readonly allow: boolean;
  readonly by: string;
  /** For how long a standing grant is to come of it, in milliseconds; only of what is allowed and may have one. */
  readonly grantMs?: number | undefined;
}

/** How an answer is waited for. */
export interface AskOptions {
  readonly signal: AbortSignal;
  /** Do not wait: `APPROVAL_REQUIRED` with the id, and the approval stays open for a repeat of the same call. */
  readonly noWait?: boolean;
  /** How long to wait, in milliseconds: 120 s by default, 10 min at most. */
  readonly timeoutMs?: number;
  /** Hears the id once a person is waited for. */
  readonly onWaiting?: (id: string) => void;
}

/** What waits for people. Rows outlive the gateway's process; who waits does not. */
export interface Approvals {
  /**
   * The id of the approval that allows it, or `APPROVAL_REQUIRED`, `APPROVAL_DENIED`, `APPROVAL_EXPIRED`. The same question
   * that is still open is not asked beside itself; of several who wait for it one goes on, and the others ask anew.
   */
  ask(question: ApprovalQuestion, options: AskOptions): Promise<string>;
  /** Those that wait, or all, oldest first. */
  list(options?: { readonly all?: boolean }): Promise<readonly Approval[]>;
  /**
   * Answers one, named by its id or a prefix that fits one only. The same answer again is as good; another one is
   * `CONFLICT` with the stored decision and who made it; `NOT_FOUND`, `INVALID_ARGUMENT` (several fit, or a grant where
   * none may be), `APPROVAL_EXPIRED` when nobody can use the answer any more.
   */
  decide(id: string, answer: ApprovalAnswer): Promise<Approval>;
  /** One by its whole id. */
  get(id: string): Promise<Approval>;
}

/** What approvals stand on. */
export interface ApprovalsOptions {
  readonly store: Pick<Store, "db">;
  readonly clock: Clock;
  /** How long a call waits for a person that does not say, in milliseconds; 120 s by default. */
  readonly waitMs?: number;
}

/** Bounds of approvals. */
export const approvalLimits = {
  waitMs: 120_000,
  maxWaitMs: 600_000,
  openMs: 604_800_000,
  titleCharacters: 80,
  detailCharacters: 16_384,
  grantMs: 2_592_000_000,
  maxGrantMs: 31_536_000_000,
} as const;

/** The approvals of a store. */
export function createApprovals(options: ApprovalsOptions): Approvals {
  return new StoredApprovals(options);
}

class StoredApprovals implements Approvals {
  readonly #store: Pick<Store, "db">;
  readonly #clock: Clock;
  readonly #waitMs: number;
  readonly #waiting = new Map<string, Waiting>();

  constructor(options: ApprovalsOptions) {
    this.#store = options.store;
    this.#clock = options.clock;
    this.#waitMs = options.waitMs ?? approvalLimits.waitMs;
  }

  async ask(question: ApprovalQuestion, options: AskOptions): Promise<string> {
    options.signal.throwIfAborted();
    requireBounded(question);
    for (;;) {
      const given = await this.#useAllowed(question.digest);
      if (given !== undefined) return given;
      if (options.noWait === true) throw required(await this.#open(question, approvalLimits.openMs));
      const answered = await this.#waitForPerson(question, options);
      if (answered !== undefined) return answered;
    }
  }

  /** Undefined: it was allowed once, and another who asked the same has gone on with it. */
  async #waitForPerson(question: ApprovalQuestion, options: AskOptions): Promise<string | undefined> {
    const waitMs = Math.min(options.timeoutMs ?? this.#waitMs, approvalLimits.maxWaitMs);
    const id = await this.#open(question, waitMs);
    const waiting = this.#waiting.get(id) ?? { answered: Promise.withResolvers<void>(), count: 0 };
    waiting.count += 1;
    this.#waiting.set(id, waiting);
    options.onWaiting?.(id);
    const leave = (): void => {
      waiting.count -= 1;
      if (waiting.count === 0) this.#waiting.delete(id);
    };
    return await this.#wait(id, { waiting, leave, waitMs, signal: options.signal });
  }

  async list(options: { readonly all?: boolean } = {}): Promise<readonly Approval[]> {
    const now = this.#clock.now();
    let query = this.#store.db
      .selectFrom("approvals")
      .selectAll()
      .orderBy("asked_at")
      .orderBy("id")
      .limit(10_000);
    if (options.all !== true) query = query.where("state", "=", "waiting").where("expires_at", ">", now);
    return (await query.execute()).map((row) => toApproval(row, now));
  }

  async get(id: string): Promise<Approval> {
    return toApproval(await this.#find(id), this.#clock.now());
  }

  async decide(id: string, answer: ApprovalAnswer): Promise<Approval> {
    const row = await this.#find(id);
    const now = this.#clock.now();
    const state = answer.allow ? "allowed" : "denied";
    if (answer.grantMs !== undefined) requireGrantable(row, answer, answer.grantMs);
    const changed = await this.#store.db
      .updateTable("approvals")
      .set({ state, decided_at: now, decided_by: answer.by, grant_ms: answer.grantMs ?? null })
      .where("id", "=", row.id)
      .where("state", "=", "waiting")
      .where("expires_at", ">", now)
      .executeTakeFirst();
    const after = toApproval(await this.#find(row.id), now);
    if (changed.numUpdatedRows > 0n) {
      this.#waiting.get(row.id)?.answered.resolve();
      return after;
    }
    const stands = after.state === "used" ? "allowed" : after.state;
    if (stands === state) return after;
    if (stands === "expired" || stands === "cancelled") throw expired(after);
    throw new Fault("CONFLICT", `the approval ${after.id} is ${stands} already, by ${after.decidedBy}`, {
      details: { approvalId: after.id, actual: stands, expected: state, decidedBy: after.decidedBy },
    });
  }

  /** Takes an answer that was given beforehand to exactly this; it counts once. */
  async #useAllowed(digest: string): Promise<string | undefined> {
    const row = await this.#store.db
      .selectFrom("approvals")
      .select("id")
      .where("digest", "=", digest)
      .where("state", "=", "allowed")
      .where("expires_at", ">", this.#clock.now())
      .orderBy("asked_at")
      .executeTakeFirst();
    return row && (await this.#use(row.id)) ? row.id : undefined;
  }

  async #use(id: string): Promise<boolean> {
    const changed = await this.#store.db
      .updateTable("approvals")
      .set({ state: "used" })
      .where("id", "=", id)
      .where("state", "=", "allowed")
      .executeTakeFirst();
    return changed.numUpdatedRows > 0n;
  }

  /** The same question that is open already is asked once: it stays open for at least `lifeMs` from now. */
  async #open(question: ApprovalQuestion, lifeMs: number): Promise<string> {
    const now = this.#clock.now();
    const open = await this.#store.db
      .selectFrom("approvals")
      .select(["id", "expires_at"])
      .where("digest", "=", question.digest)
      .where("rule", "=", question.rule)
      .where("state", "=", "waiting")
      .where("expires_at", ">", now)
      .orderBy("asked_at")
      .executeTakeFirst();
    if (!open) return await this.#insert(question, lifeMs);
    if (open.expires_at >= now + lifeMs) return open.id;
    await this.#store.db
      .updateTable("approvals")
      .set({ expires_at: now + lifeMs })
      .where("id", "=", open.id)
      .where("state", "=", "waiting")
      .execute();
    return open.id;
  }

  async #insert(question: ApprovalQuestion, lifeMs: number): Promise<string> {
    const id = randomBytes(8).toString("hex");
    const now = this.#clock.now();
    await this.#store.db
      .insertInto("approvals")
      .values({
        id,
        state: "waiting",
        title: cut(question.title),
        detail: question.detail,
        agent: question.agent,
        session_id: question.sessionId ?? null,
        node_id: question.nodeId ?? null,
        rule: question.rule,
        digest: question.digest,
        asked_at: now,
        expires_at: now + lifeMs,
        decided_at: null,
        decided_by: null,
        grantable: question.mayGrant === true ? 1 : 0,
        grant_ms: null,
      })
      .execute();
    return id;
  }

  async #wait(id: string, wait: Wait): Promise<string | undefined> {
    const over = new AbortController();
    try {
      await raceSignal(
        Promise.race([
          wait.waiting.answered.promise,
          this.#clock.sleep(wait.waitMs, { signal: over.signal }),
        ]),
        wait.signal,
      );
    } catch (error) {
      wait.leave();
      await this.#finish(id, "cancelled");
      throw error;
    } finally {
      over.abort();
    }
    wait.leave();
    const row = await this.#find(id);
    if (row.state === "allowed" && (await this.#use(id))) return id;
    if (row.state === "allowed" || row.state === "used") return undefined;
    if (row.state === "waiting") await this.#finish(id, "expired");
    throw row.state === "denied"
      ? denied(toApproval(row, this.#clock.now()))
      : expired(toApproval(row, this.#clock.now()));
  }

  /** Once nobody waits for it any more; one that was left open for a repeat of the call stays. */
  async #finish(id: string, state: "cancelled" | "expired"): Promise<void> {
    if (this.#waiting.has(id)) return;
    await this.#store.db
      .updateTable("approvals")
      .set({ state })
      .where("id", "=", id)
      .where("state", "=", "waiting")
      .where("expires_at", "<=", this.#clock.now() + approvalLimits.maxWaitMs)
      .execute();
  }

  async #find(id: string): Promise<ApprovalsTable> {
    const prefix = id.toLowerCase();
    const rows = /^[0-9a-f]{1,64}$/.test(prefix)
      ? await this.#store.db
          .selectFrom("approvals")
          .selectAll()
          .where("id", "like", `${prefix}%`)
          .limit(prefixCandidates)
          .execute()
      : [];
    return pickByPrefix(rows, { id, what: "approval", listedBy: "fairlead approvals ls" });
  }
}

/** Those of this process that wait for one approval. */
interface Waiting {
  readonly answered: PromiseWithResolvers<void>;
  count: number;
}

interface Wait {
  readonly waiting: Waiting;
  /** Waits no more. */
  readonly leave: () => void;
  readonly waitMs: number;
  readonly signal: AbortSignal;
}

function requireGrantable(row: ApprovalsTable, answer: ApprovalAnswer, grantMs: number): void {
  if (!answer.allow || row.grantable !== 1) {
    throw new Fault("INVALID_ARGUMENT", "nothing of this can be allowed for longer: it is asked each time", {
      hint: `allow it this once: fairlead approvals allow ${row.id}`,
      details: { field: "always", approvalId: row.id, rule: row.rule },
    });
  }
  const { maxGrantMs } = approvalLimits;
  if (Number.isSafeInteger(grantMs) && grantMs > 0 && grantMs <= maxGrantMs) return;
  throw new Fault("INVALID_ARGUMENT", "a grant holds for at most 365 days", {
    details: { field: "for", limit: maxGrantMs, actual: grantMs },
  });
}

function requireBounded({ detail }: ApprovalQuestion): void {
  if (detail.length <= approvalLimits.detailCharacters) return;
  throw new Fault("TOO_LARGE", "what would have to be allowed is too long to be shown to a person", {
    details: { limit: approvalLimits.detailCharacters, actual: detail.length },
  });
}

const cutMark = "…[truncated]";

function cut(title: string): string {
  const limit = approvalLimits.titleCharacters;
  return title.length <= limit ? title : `${title.slice(0, limit - cutMark.length)}${cutMark}`;
}

function toApproval(row: ApprovalsTable, now: number): Approval {
  const lapsed = row.state === "waiting" && row.expires_at <= now;
  return {
    id: row.id,
    state: lapsed ? "expired" : (row.state as ApprovalState),
    title: row.title,
    detail: row.detail,
    agent: row.agent,
    sessionId: row.session_id ?? undefined,
    nodeId: row.node_id ?? undefined,
    rule: row.rule,
    digest: row.digest,
    askedAt: row.asked_at,
    expiresAt: row.expires_at,
    decidedBy: row.decided_by ?? "",
    grantMs: row.grant_ms ?? undefined,
  };
}

function required(id: string): Fault {
  return new Fault("APPROVAL_REQUIRED", "a person must allow this first", {
    hint: `fairlead approvals allow ${id}, then repeat the call`,
    details: { approvalId: id },
  });
}

function denied(approval: Approval): Fault {
  return new Fault(
    "APPROVAL_DENIED",
    `${approval.decidedBy} denied it; this request is closed and is not to be repeated`,
    {
      hint: `fairlead approvals show ${approval.id}`,
      details: { approvalId: approval.id, decidedBy: approval.decidedBy },
    },
  );
}

function expired(approval: Approval): Fault {
  const reason = approval.state === "cancelled" ? "cancelled" : "timeout";
  return new Fault("APPROVAL_EXPIRED", "nobody answered in time", {
    hint: `repeat the call and answer the new request; see fairlead approvals show ${approval.id}`,
    details: { approvalId: approval.id, reason },
  });
}
