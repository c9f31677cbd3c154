import { parseAddress } from "../../shared/identity/address.ts";
import { isNodeId } from "../../shared/identity/node-name.ts";
import { parsePin, type Pin } from "../../shared/identity/pin.ts";

/** `gateway.json`: which gateway the node belongs to, and as whom. */
export interface GatewayRecord {
  /** The node's id. */
  readonly id: string;
  /** As it was when the node enrolled; for people. */
  readonly alias: string;
  /** Where the gateway is reached, `HOST:PORT`, in the order of trying. */
  readonly addresses: readonly string[];
  /** The pin of the authority's public key. */
  readonly pin: Pin;
}

/** The record's text. */
export function formatGatewayRecord(record: GatewayRecord): string {
  const { id, alias, addresses, pin } = record;
  return `${JSON.stringify({ id, alias, addresses, pin }, undefined, 2)}\n`;
}

/** The record in a text, or undefined when it is none. Members of later versions are passed over. */
export function parseGatewayRecord(text: string): GatewayRecord | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return undefined;
    const { id, alias, addresses, pin } = value as Readonly<Record<string, unknown>>;
    if (typeof id !== "string" || !isNodeId(id)) return undefined;
    if (typeof alias !== "string" || typeof pin !== "string") return undefined;
    if (!isAddressList(addresses)) return undefined;
    return { id, alias, addresses, pin: parsePin(pin) };
  } catch {
    // Text that is no JSON, and addresses and pins that are none, are all the same: no record.
    return undefined;
  }
}

function isAddressList(value: unknown): value is readonly string[] {
  if (!Array.isArray(value) || value.length === 0) return false;
  for (const address of value) {
    if (typeof address !== "string") return false;
    parseAddress(address);
  }
  return true;
}
