import { maxAliasLength, parseAlias } from "../../shared/names/alias.ts";
import type { StoreDb } from "../store/store.ts";
import type { JoinCodesTable } from "../store/tables.ts";
import { aliasTaken } from "./nodes-repository.ts";

/** What a new node's alias is chosen from. */
export interface AliasWishes {
  /** The code that the machine enrols with. */
  readonly code: JoinCodesTable;
  /** What the machine would like; empty: nothing. */
  readonly wish: string;
  /** The new node's id. */
  readonly nodeId: string;
  /** The time, in milliseconds since 1970. */
  readonly now: number;
}

const maxAttempts = 10_000;

/**
 * The alias of a new node: the invite's when it names one (numbered from the second machine on), else the machine's wish
 * when nobody has it or was promised it, else one made from the id. Call it in the transaction that adds the node.
 * `ALREADY_EXISTS` when the one alias of an invite was given to another node meanwhile.
 */
export async function chooseAlias(db: StoreDb, wishes: AliasWishes): Promise<string> {
  const { code, wish, nodeId } = wishes;
  const held = await heldAliases(db);
  if (code.alias) {
    if (!held.has(code.alias)) return code.alias;
    if (code.uses === 1) throw aliasTaken(code.alias);
    return firstFree(code.alias, held);
  }
  const promised = await promisedAliases(db, wishes);
  const isFree = (alias: string): boolean => !held.has(alias) && !promised.has(alias);
  if (wish && isFree(parseAlias(wish))) return wish;
  const made = `node-${nodeId.slice(0, 4)}`;
  return isFree(made) ? made : firstFree(made, new Set([...held, ...promised]));
}

async function heldAliases(db: StoreDb): Promise<ReadonlySet<string>> {
  const rows = await db.selectFrom("nodes").select("alias").where("revoked_at", "is", null).execute();
  return new Set(rows.map((row) => row.alias));
}

/** Aliases of invites that may still be used: a machine's wish must not take them away. */
async function promisedAliases(db: StoreDb, wishes: AliasWishes): Promise<ReadonlySet<string>> {
  const rows = await db
    .selectFrom("join_codes")
    .select("alias")
    .where("alias", "!=", "")
    .where("uses_left", ">", 0)
    .where("expires_at", ">", wishes.now)
    .execute();
  return new Set(rows.map((row) => row.alias));
}

function firstFree(alias: string, taken: ReadonlySet<string>): string {
  for (let number = 2; number < maxAttempts; number += 1) {
    const ending = `-${number}`;
    const candidate = alias.slice(0, maxAliasLength - ending.length).replace(/-$/, "") + ending;
    if (!taken.has(candidate)) return candidate;
  }
  throw aliasTaken(alias);
}
