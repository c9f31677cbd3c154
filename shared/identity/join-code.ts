import { randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";
import { Fault } from "../fault/fault.ts";
import { parseAddress } from "./address.ts";
import { pinBytes, pinFromBytes, type Pin } from "./pin.ts";

/**
 * The text form of a join code: `flj_` and base64url of
 *
 *     version 1 | purpose | secret 16 | pin 32 | count | (length, address as UTF-8) … | CRC-32 of all that, big endian
 *
 * The sum is there against slips of hand and clipboard: a CRC finds every change of one character for certain, and
 * nothing is dialled before it was checked.
 */

/** What a code is for. */
export type JoinCodePurpose = "node";

/** What a join code carries. */
export interface JoinCode {
  /** What it is for. */
  readonly purpose: JoinCodePurpose;
  /** Where the gateway is reached, `HOST:PORT`, in the order of trying; 1 to 8. */
  readonly addresses: readonly string[];
  /** The pin of the authority's public key. */
  readonly pin: Pin;
  /** The one-time secret: 16 bytes. */
  readonly secret: Uint8Array;
}

/** Bytes of a code's secret. */
export const joinSecretBytes = 16;
/** Most addresses that a code carries. */
export const maxJoinAddresses = 8;

const prefix = "flj_";
const version = 1;
const purposes: ReadonlyMap<number, JoinCodePurpose> = new Map([[1, "node"]]);
const headBytes = 2 + joinSecretBytes + 32 + 1;
const maxAddressBytes = 255;
const maxTextLength = 4_096;

/** A fresh secret of 128 random bits. */
export function createJoinSecret(): Uint8Array {
  return randomBytes(joinSecretBytes);
}

/** The text of a code. Addresses that are none or too many are `INVALID_ARGUMENT`. */
export function formatJoinCode(code: JoinCode): string {
  if (code.addresses.length === 0 || code.addresses.length > maxJoinAddresses) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `a join code carries 1 to ${maxJoinAddresses} addresses, not ${code.addresses.length}`,
      { details: { field: "advertise" }, hint: "name them with fairlead gateway run --advertise HOST:PORT" },
    );
  }
  for (const address of code.addresses) parseAddress(address, "advertise");
  const addresses = code.addresses.map((address) => Buffer.from(address, "utf8"));
  const body = Buffer.concat([
    Buffer.of(version, purposeByte(code.purpose)),
    code.secret,
    pinBytes(code.pin),
    Buffer.of(addresses.length),
    ...addresses.flatMap((address) => [Buffer.of(address.length), address]),
  ]);
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  return prefix + Buffer.concat([body, sum]).toString("base64url");
}

function purposeByte(purpose: JoinCodePurpose): number {
  const found = [...purposes].find(([, name]) => name === purpose);
  return found?.[0] ?? 0;
}

/** What a code's text carries. A text that is no whole code is `INVALID_ARGUMENT` with `details.field` = `code`. */
export function parseJoinCode(text: string): JoinCode {
  const bytes = checkedBytes(text);
  const reader = bytes.subarray(0, -4);
  const purpose = purposes.get(reader[1] ?? 0);
  if (reader[0] !== version || purpose === undefined) {
    throw damaged("is of a kind that this version does not know", "upgrade fairlead on this machine");
  }
  return {
    purpose,
    secret: Uint8Array.from(reader.subarray(2, 2 + joinSecretBytes)),
    pin: pinFromBytes(reader.subarray(2 + joinSecretBytes, headBytes - 1)),
    addresses: readAddresses(reader),
  };
}

function checkedBytes(text: string): Buffer {
  if (!text.startsWith(prefix) || text.length > maxTextLength) throw damaged("does not look like one");
  const encoded = text.slice(prefix.length);
  const bytes = Buffer.from(encoded, "base64url");
  // The decoder skips what it does not know and ignores spare bits; only the exact text of the bytes is a code.
  if (bytes.toString("base64url") !== encoded || bytes.length < headBytes + 4) throw damaged("is damaged");
  const body = bytes.subarray(0, -4);
  if (crc32(body) !== bytes.readUInt32BE(body.length)) throw damaged("is damaged");
  return bytes;
}

function readAddresses(body: Buffer): readonly string[] {
  const count = body[headBytes - 1] ?? 0;
  const addresses: string[] = [];
  let at = headBytes;
  for (let index = 0; index < count; index += 1) {
    const length = body[at] ?? 0;
    const address = body.subarray(at + 1, at + 1 + length).toString("utf8");
    if (length === 0 || length > maxAddressBytes || at + 1 + length > body.length)
      throw damaged("is damaged");
    parseAddress(address, "code");
    addresses.push(address);
    at += 1 + length;
  }
  if (at !== body.length || count === 0 || count > maxJoinAddresses) throw damaged("is damaged");
  return addresses;
}

function damaged(
  how: string,
  hint = "copy the whole code again, or make another with fairlead invite",
): Fault {
  return new Fault("INVALID_ARGUMENT", `the join code ${how}`, { details: { field: "code" }, hint });
}
