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
  /** Pins of the authorities' public keys: one, or two while the gateway's key is being changed. */
  readonly pins: readonly Pin[];
  /** The serial of the statement that named them; 0: they are from the join code. */
  readonly trustSerial: number;
}

/** The record's text. */
export function formatGatewayRecord(record: GatewayRecord): string {
  const { id, alias, addresses, pins, trustSerial } = record;
  const [pin, ...morePins] = pins;
  const more = morePins.length > 0 ? { morePins } : {};
  const trust = trustSerial > 0 ? { trustSerial } : {};
  return `${JSON.stringify({ id, alias, addresses, pin, ...more, ...trust }, undefined, 2)}\n`;
}

/** The record in a text, or undefined when it is none. Members of later versions are passed over. */
export function parseGatewayRecord(text: string): GatewayRecord | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== "object" || value === null) return undefined;
    const {
      id,
      alias,
      addresses,
      pin,
      morePins = [],
      trustSerial = 0,
    } = value as Readonly<Record<string, unknown>>;
    if (typeof id !== "string" || !isNodeId(id)) return undefined;
    if (typeof alias !== "string" || typeof pin !== "string") return undefined;
    if (!isAddressList(addresses)) return undefined;
    if (!isTextList(morePins) || typeof trustSerial !== "number") return undefined;
    const pins = [pin, ...morePins].map((text) => parsePin(text));
    return { id, alias, addresses, pins, trustSerial };
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

function isTextList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === "string");
}
