import type { JsonValue } from "../../shared/fault/fault.ts";
import type { StoreTransaction } from "../store/store.ts";
import type { NodeRecord } from "./nodes.ts";

/** A change for the record of what happened. It holds no secret. */
export interface PairingEntry {
  /** `user:NAME`, `node:ID` or `gateway`. */
  readonly actor: string;
  /** Where it came from. */
  readonly address?: string;
  /** `enrolments.approve`, `enrolments.reject` or `nodes.enrol`. */
  readonly action: string;
  /** What it was done to, as kind and name. */
  readonly target: string;
  readonly outcome: "ok";
  /** What stands now. */
  readonly after: { readonly [key: string]: JsonValue };
  readonly nodeId?: string;
}

/** Writes an entry in the transaction of its change: there is never one without the other. */
export type RecordChange = (db: StoreTransaction, entry: PairingEntry) => Promise<void>;

/** What an entry says of a node that was admitted. */
export function admittedAs(node: NodeRecord): PairingEntry["after"] {
  const { id, alias, labels, profile, keyDigest, hostName } = node;
  return { id, alias, labels, profile, key: keyDigest, hostName };
}
