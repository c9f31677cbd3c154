import { Fault } from "../../shared/fault/fault.ts";
import { isPin, type Pin } from "../../shared/identity/pin.ts";
import type { StoreDb } from "../store/store.ts";
import type { Authorities } from "./authorities.ts";

/** A step of the change of the authority's key. */
export type AuthorityStep = "announce" | "switch" | "retire" | "abort";

/** A node, as the change sees it. */
export interface AuthorityNode {
  readonly id: string;
  readonly alias: string;
  /** The pin of the authority that signed its certificate; empty when that is not known. */
  readonly issuerPin: string;
  /** The pins that it trusts, as it said last. */
  readonly trustedPins: readonly Pin[];
}

/** Takes the steps of a change, one at a time. */
export interface AuthorityChange {
  readonly authorities: Authorities;
  /** Every node that is not revoked. */
  nodes(): Promise<readonly AuthorityNode[]>;
  /**
   * Takes a step. `CONFLICT` in a phase that has no such step, and, unless forced, while nodes would be cut off by it:
   * `details.nodes` lists them.
   */
  take(step: AuthorityStep, options: { readonly force: boolean }): Promise<void>;
}

/** What changing takes. */
export interface AuthorityChangeOptions {
  readonly db: StoreDb;
  readonly authorities: Authorities;
  /** After each step: shows the server certificate that fits, and tells the nodes. */
  readonly onChanged: () => Promise<void>;
}

/** The change over the store's nodes. */
export function createAuthorityChange(options: AuthorityChangeOptions): AuthorityChange {
  const { authorities, db } = options;
  let turn: Promise<void> = Promise.resolve();
  const change = async (step: AuthorityStep, force: boolean): Promise<void> => {
    if (!force) await requireNobodyCutOff(step, { authorities, db });
    await run(authorities, step);
    await options.onChanged();
  };
  return {
    authorities,
    nodes: () => listNodes(db),
    take: (step, { force }) => {
      const mine = turn.then(() => change(step, force));
      turn = mine.catch(() => undefined);
      return mine;
    },
  };
}

function run(authorities: Authorities, step: AuthorityStep): Promise<void> {
  switch (step) {
    case "announce":
      return authorities.announce();
    case "switch":
      return authorities.switchOver();
    case "retire":
      return authorities.retire();
    case "abort":
      return authorities.abort();
  }
}

/** An authority that goes takes those with it whom it alone vouches for. */
async function requireNobodyCutOff(
  step: AuthorityStep,
  { authorities, db }: Pick<AuthorityChangeOptions, "authorities" | "db">,
): Promise<void> {
  const staying = stayingAfter(step, authorities);
  if (!staying) return;
  const isFirst = staying === authorities.current.pin;
  // What is not known of a node is as it was before anything changed.
  const isCutOff = ({ issuerPin, trustedPins }: AuthorityNode): boolean => {
    const isIssued = issuerPin === "" ? isFirst : issuerPin === staying;
    const trusts = trustedPins.length === 0 ? isFirst : trustedPins.includes(staying);
    return !isIssued || !trusts;
  };
  const cutOff = (await listNodes(db)).filter(isCutOff);
  if (cutOff.length === 0) return;
  const names = cutOff.map(({ alias }) => alias);
  throw new Fault(
    "CONFLICT",
    `${cutOff.length} ${cutOff.length === 1 ? "node has" : "nodes have"} no certificate of the authority that stays, or do not trust it yet: ${names.slice(0, 10).join(", ")}${names.length > 10 ? ", …" : ""}`,
    {
      details: { nodes: names.slice(0, 100), expected: staying },
      hint: "wait until they have linked and renewed, revoke those that are gone, or cut them off with --force",
    },
  );
}

/** The pin of the only authority that counts after a step; undefined when both still do. */
function stayingAfter(step: AuthorityStep, { phase, current, next }: Authorities): Pin | undefined {
  if (step === "retire" && phase === "switched") return next?.pin;
  return step === "abort" && phase === "announced" ? current.pin : undefined;
}

async function listNodes(db: StoreDb): Promise<readonly AuthorityNode[]> {
  const rows = await db
    .selectFrom("nodes")
    .select(["id", "alias", "issuer_pin", "trusted_json"])
    .where("revoked_at", "is", null)
    .orderBy("alias")
    .execute();
  return rows.map((row) => ({
    id: row.id,
    alias: row.alias,
    issuerPin: row.issuer_pin,
    trustedPins: toPins(JSON.parse(row.trusted_json)),
  }));
}

function toPins(value: unknown): readonly Pin[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === "string" && isPin(item)) : [];
}

/** Keeps which authorities a node says it trusts. */
export async function keepTrusted(db: StoreDb, nodeId: string, pins: readonly string[]): Promise<void> {
  const trusted = JSON.stringify(pins);
  await db
    .updateTable("nodes")
    .set({ trusted_json: trusted })
    .where("id", "=", nodeId)
    .where("trusted_json", "!=", trusted)
    .execute();
}
