import { sign, verify, type X509Certificate } from "node:crypto";
import { pinBytes, type Pin } from "./pin.ts";

/** Which authorities a node is to trust from now on, instead of those that it trusts now. */
export interface TrustStatement {
  /** Rises with each statement of a gateway: an older one changes nothing. */
  readonly serial: number;
  /** The pins of the authorities' public keys; one, or two while a change is under way. */
  readonly pins: readonly Pin[];
}

/** Most authorities that a statement names. */
export const maxTrustedPins = 2;

const label = Buffer.from("fairlead trust 1\0", "latin1");

function statementBytes({ serial, pins }: TrustStatement): Buffer {
  const head = Buffer.alloc(9);
  head.writeBigUInt64BE(BigInt(serial));
  head.writeUInt8(pins.length, 8);
  return Buffer.concat([label, head, ...pins.map((pin) => pinBytes(pin))]);
}

/** The signature of an authority (its key as PKCS#8, PEM): ECDSA with SHA-256, DER. */
export function signTrust(statement: TrustStatement, keyPem: string): Uint8Array {
  return new Uint8Array(sign("sha256", statementBytes(statement), keyPem));
}

/** Whether the signature is that of the authority over just this. */
export function isTrustSignature(
  statement: TrustStatement,
  authority: X509Certificate,
  signature: Uint8Array,
): boolean {
  try {
    return verify("sha256", statementBytes(statement), authority.publicKey, signature);
  } catch {
    // Bytes that are no signature at all are as good as a wrong one.
    return false;
  }
}
