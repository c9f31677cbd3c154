import { createHash, randomBytes } from "node:crypto";
import { Fault } from "../../shared/fault/fault.ts";
import { createJoinSecret } from "../../shared/identity/join-code.ts";
import { parseAlias } from "../../shared/names/alias.ts";
import type { StoreDb } from "../store/store.ts";
import type { JoinCodesTable } from "../store/tables.ts";
import { isAliasHeld } from "./choose-alias.ts";
import { parseLabels } from "./labels.ts";
import { isNodeProfile, nodeProfiles } from "./node-rows.ts";
import { aliasTaken } from "./nodes-repository.ts";
import type { NodeProfile } from "./nodes.ts";
import { parseNote } from "./note.ts";

/** What an invite may say; everything has a default. */
export interface InviteRequest {
  /** The alias of the node; empty: the machine's wish, or one that is made. */
  readonly alias?: string;
  readonly labels?: Readonly<Record<string, string>>;
  /** `read` by default. */
  readonly profile?: string;
  /** How long the code lives, in milliseconds; 10 minutes by default, at most 30 days. */
  readonly ttlMs?: number;
  /** How many machines may use it: 1 by default, at most 10,000. */
  readonly uses?: number;
  /** Whether each machine waits until an administrator approves its request. */
  readonly requireApproval?: boolean;
  /** What it is made for, in at most 200 characters; it becomes the node's note. */
  readonly note?: string;
}

/** How long a code lives when nothing else is said. */
const defaultCodeTtlMs = 600_000;
const maxCodeTtlMs = 30 * 86_400_000;
const maxUses = 10_000;
// A machine that never got its answer may ask again with a code that ended long ago.
const keptAfterEndMs = 30 * 86_400_000;

/** A code that was just made. The secret is nowhere else. */
export interface CreatedCode {
  readonly secret: Uint8Array;
  readonly expiresAt: number;
  readonly uses: number;
  readonly requireApproval: boolean;
}

/**
 * Makes a code and keeps it without its secret. `INVALID_ARGUMENT` for uses, time to live, labels, note and alias that
 * are none, `NOT_FOUND` for a profile that does not exist, `ALREADY_EXISTS` for an alias in use; nothing is made then.
 */
export async function createCode(db: StoreDb, request: InviteRequest, now: number): Promise<CreatedCode> {
  const uses = checkedUses(request.uses ?? 1);
  const expiresAt = now + checkedTtl(request.ttlMs ?? defaultCodeTtlMs);
  const alias = request.alias ? parseAlias(request.alias) : "";
  const labels = parseLabels(request.labels ?? {});
  const profile = parseProfile(request.profile || "read");
  const note = parseNote(request.note ?? "");
  const requireApproval = request.requireApproval ?? false;
  if (alias && (await isAliasHeld(db, alias))) throw aliasTaken(alias);
  const secret = createJoinSecret();
  await db
    .deleteFrom("join_codes")
    .where("expires_at", "<", now - keptAfterEndMs)
    .execute();
  await db
    .insertInto("join_codes")
    .values({
      id: randomBytes(8).toString("hex"),
      secret_hash: hashSecret(secret),
      purpose: "node",
      alias,
      labels_json: JSON.stringify(labels),
      profile,
      uses,
      uses_left: uses,
      created_at: now,
      expires_at: expiresAt,
      require_approval: requireApproval ? 1 : 0,
      note,
    })
    .execute();
  return { secret, expiresAt, uses, requireApproval };
}

function checkedUses(uses: number): number {
  if (Number.isInteger(uses) && uses >= 1 && uses <= maxUses) return uses;
  throw new Fault("INVALID_ARGUMENT", `a code can have 1 to ${maxUses} uses, not ${uses}`, {
    details: { field: "uses" },
  });
}

function checkedTtl(ttlMs: number): number {
  if (Number.isFinite(ttlMs) && ttlMs >= 1000 && ttlMs <= maxCodeTtlMs) return Math.round(ttlMs);
  throw new Fault("INVALID_ARGUMENT", `a code can live 1 s to 30 days, not ${ttlMs} ms`, {
    details: { field: "ttl" },
  });
}

/** A profile by its name; `NOT_FOUND` with `details.field` = `profile` for one that does not exist. */
export function parseProfile(profile: string): NodeProfile {
  if (isNodeProfile(profile)) return profile;
  throw new Fault("NOT_FOUND", `there is no profile ${JSON.stringify(profile.slice(0, 64))}`, {
    details: { field: "profile" },
    hint: `choose one of ${nodeProfiles.join(", ")}`,
  });
}

/** What is kept of a secret. It is random, so a plain digest gives nothing away. */
function hashSecret(secret: Uint8Array): string {
  return createHash("sha256").update(secret).digest("hex");
}

/** The code that a secret belongs to, for that purpose, in whatever state it is. */
export async function findCode(
  db: StoreDb,
  secret: Uint8Array,
  purpose: string,
): Promise<JoinCodesTable | undefined> {
  return await db
    .selectFrom("join_codes")
    .selectAll()
    .where("secret_hash", "=", hashSecret(secret))
    .where("purpose", "=", purpose)
    .executeTakeFirst();
}

/** Takes one use of a code, or fails with `JOIN_CODE_INVALID` and why. Of those who ask at once, `uses` succeed. */
export async function takeUse(db: StoreDb, code: JoinCodesTable, now: number): Promise<void> {
  const taken = await db
    .updateTable("join_codes")
    .set((columns) => ({ uses_left: columns("uses_left", "-", 1) }))
    .where("id", "=", code.id)
    .where("uses_left", ">", 0)
    .where("expires_at", ">", now)
    .executeTakeFirst();
  if (taken.numUpdatedRows === 1n) return;
  throw now >= code.expires_at && code.uses_left > 0 ? codeExpired(code, now) : codeUsed(code);
}

/** Gives a use back that came to nothing. */
export async function giveBackUse(db: StoreDb, codeId: string): Promise<void> {
  await db
    .updateTable("join_codes")
    .set((columns) => ({ uses_left: columns("uses_left", "+", 1) }))
    .where("id", "=", codeId)
    .whereRef("uses_left", "<", "uses")
    .execute();
}

/** The fault of a code that nobody made. */
export function codeUnknown(): Fault {
  return new Fault("JOIN_CODE_INVALID", "this gateway made no such join code", {
    details: { reason: "unknown" },
    hint: "make one on this gateway with fairlead invite",
  });
}

function codeExpired(code: JoinCodesTable, now: number): Fault {
  const at = new Date(code.expires_at).toISOString();
  const lived = Math.round((code.expires_at - code.created_at) / 1000);
  const ago = Math.round((now - code.expires_at) / 1000);
  return new Fault(
    "JOIN_CODE_INVALID",
    `the join code expired at ${at}, ${ago} s ago; it was good for ${lived} s`,
    {
      details: { reason: "expired", expiredAt: at },
      hint: "fairlead invite",
    },
  );
}

function codeUsed(code: JoinCodesTable): Fault {
  const times = code.uses === 1 ? "once" : `${code.uses} times`;
  return new Fault("JOIN_CODE_INVALID", `the join code could be used ${times} and was`, {
    details: { reason: "used", limit: code.uses },
    hint: "make another code with fairlead invite, one for each machine or with --uses",
  });
}
