import { createHash, type X509Certificate } from "node:crypto";
import { Fault } from "../fault/fault.ts";

declare const pin: unique symbol;

/** The SHA-256 digest of a public key (its SubjectPublicKeyInfo): `sha256:` and 64 hex digits, lower case. */
export type Pin = string & { readonly [pin]: true };

const prefix = "sha256:";
const digits = /^[0-9a-f]{64}$/;

/**
 * Every spelling of a pin as the one that is compared: with or without `sha256:`, with colons between the digits, in
 * upper case, with blanks around. Anything else is `INVALID_ARGUMENT` with `details.field`, `pin` when no other is given.
 */
export function parsePin(text: string, field = "pin"): Pin {
  const lower = text.trim().toLowerCase();
  const bare = lower.startsWith(prefix) ? lower.slice(prefix.length) : lower;
  const hex = bare.includes(":") ? joinPairs(bare) : bare;
  if (!digits.test(hex)) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `${JSON.stringify(text.slice(0, 128))} is no pin: sha256: and 64 hex digits`,
      { details: { field } },
    );
  }
  return (prefix + hex) as Pin;
}

/** Whether a text is a pin as `parsePin` gives it. */
export function isPin(text: string): text is Pin {
  return text.startsWith(prefix) && digits.test(text.slice(prefix.length));
}

function joinPairs(text: string): string {
  const pairs = text.split(":");
  return pairs.every((pair) => pair.length === 2) ? pairs.join("") : text;
}

/** The pin of a public key, given as SubjectPublicKeyInfo, DER. */
export function pinOfPublicKey(spki: Uint8Array): Pin {
  return (prefix + createHash("sha256").update(spki).digest("hex")) as Pin;
}

/** The pin of a certificate's public key. */
export function pinOfCertificate(certificate: X509Certificate): Pin {
  return pinOfPublicKey(certificate.publicKey.export({ type: "spki", format: "der" }));
}

/** The 32 bytes of a pin. */
export function pinBytes(of: Pin): Uint8Array {
  return Buffer.from(of.slice(prefix.length), "hex");
}

/** The pin that 32 bytes stand for. */
export function pinFromBytes(bytes: Uint8Array): Pin {
  return parsePin(Buffer.from(bytes).toString("hex"));
}
