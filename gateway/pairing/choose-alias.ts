import { gatewayOwner, isAlias, maxAliasLength } from "../../shared/names/alias.ts";
import type { StoreDb } from "../store/store.ts";
import { aliasTaken } from "./nodes-repository.ts";

/** What a new node's alias is chosen from. */
export interface AliasWishes {
  /** What the approval names; empty: nothing. */
  readonly named?: string;
  /** What the code names; empty: nothing. */
  readonly invited: string;
  /** Whether the code is for one machine, which then gets that alias or none. */
  readonly isForOne: boolean;
  /** What the machine would like; empty, or no alias: nothing. */
  readonly wish: string;
  /** The new node's id. */
  readonly nodeId: string;
  /** The time, in milliseconds since 1970. */
  readonly now: number;
}

const maxAttempts = 10_000;

/**
 * The alias of a new node: the approval's, else the code's (numbered from the second machine on), else the machine's wish
 * when nobody has it or was promised it, else one made from the id. Call it in the transaction that adds the node.
 * `ALREADY_EXISTS` when what an administrator named is another node's.
 */
export async function chooseAlias(db: StoreDb, wishes: AliasWishes): Promise<string> {
  const { named = "", invited, wish, nodeId } = wishes;
  if (named !== "") {
    if (await isAliasHeld(db, named)) throw aliasTaken(named);
    return named;
  }
  if (invited !== "") {
    if (!(await isAliasHeld(db, invited))) return invited;
    if (wishes.isForOne) throw aliasTaken(invited);
    return await firstFree(db, invited, []);
  }
  const promised = await promisedAliases(db, wishes);
  const isFree = async (alias: string): Promise<boolean> =>
    !promised.includes(alias) && !(await isAliasHeld(db, alias));
  if (isAlias(wish) && (await isFree(wish))) return wish;
  const made = `node-${nodeId.slice(0, 4)}`;
  return (await isFree(made)) ? made : await firstFree(db, made, promised);
}

/** Whether a node that is not revoked has an alias. */
export async function isAliasHeld(db: StoreDb, alias: string): Promise<boolean> {
  if (alias === gatewayOwner) return true;
  const row = await db
    .selectFrom("nodes")
    .select("id")
    .where("alias", "=", alias)
    .where("revoked_at", "is", null)
    .executeTakeFirst();
  return row !== undefined;
}

/** Aliases of codes that may still be used, or whose machines wait: a machine's wish must not take them away. */
async function promisedAliases(db: StoreDb, { now }: AliasWishes): Promise<readonly string[]> {
  const codes = await db
    .selectFrom("join_codes")
    .select("alias")
    .where("alias", "!=", "")
    .where("uses_left", ">", 0)
    .where("expires_at", ">", now)
    .execute();
  const requests = await db
    .selectFrom("enrolment_requests")
    .select("alias")
    .where("alias", "!=", "")
    .where("state", "=", "pending")
    .where("expires_at", ">", now)
    .execute();
  return [...codes, ...requests].map((row) => row.alias);
}

async function firstFree(db: StoreDb, alias: string, promised: readonly string[]): Promise<string> {
  const longestEnding = `-${maxAttempts}`.length;
  const stem = alias.slice(0, maxAliasLength - longestEnding);
  const rows = await db
    .selectFrom("nodes")
    .select("alias")
    .where("alias", "like", `${stem}%`)
    .where("revoked_at", "is", null)
    .execute();
  const taken = new Set([...promised, ...rows.map((row) => row.alias)]);
  for (let number = 2; number < maxAttempts; number += 1) {
    const ending = `-${number}`;
    const candidate = alias.slice(0, maxAliasLength - ending.length).replace(/-$/, "") + ending;
    if (!taken.has(candidate)) return candidate;
  }
  throw aliasTaken(alias);
}
