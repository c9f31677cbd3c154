import { tryReadCertificate } from "../../shared/identity/node-name.ts";
import { isPin, pinOfCertificate, type Pin } from "../../shared/identity/pin.ts";
import { isTrustSignature, maxTrustedPins } from "../../shared/identity/trust-statement.ts";
import type { HeldIdentity } from "./held-identity.ts";

/** A statement of trust as a gateway sends it. */
export interface ReceivedTrust {
  readonly serial: bigint;
  readonly pins: readonly string[];
  /** The authority's certificate, PEM, and its signature in base64. */
  readonly signatures: readonly { readonly authority: string; readonly signature: string }[];
}

/** What became of a statement: it changed what is trusted, said nothing new, or nobody who is trusted had signed it. */
export type TrustOutcome = "taken" | "known" | "ignored";

/**
 * Trusts from now on whom the statement names, when an authority that is trusted already signed it and stays among them;
 * it is on the disk then. Anything else changes nothing.
 */
export async function followTrust(held: HeldIdentity, received: ReceivedTrust): Promise<TrustOutcome> {
  const { pins: trusted, trustSerial } = held.current;
  const serial = Number(received.serial);
  const pins = received.pins.filter((pin) => isPin(pin));
  const isWhole = pins.length === received.pins.length && pins.length > 0 && pins.length <= maxTrustedPins;
  if (!isWhole || !Number.isSafeInteger(serial)) return "ignored";
  if (!isSigned({ serial, pins }, received.signatures, trusted)) return "ignored";
  if (serial <= trustSerial) return "known";
  await held.trusts(pins, serial);
  return pins.join() === trusted.join() ? "known" : "taken";
}

function isSigned(
  statement: { readonly serial: number; readonly pins: readonly Pin[] },
  signatures: ReceivedTrust["signatures"],
  trusted: readonly Pin[],
): boolean {
  return signatures.slice(0, maxTrustedPins).some(({ authority, signature }) => {
    const certificate = tryReadCertificate(authority);
    if (!certificate) return false;
    const pin = pinOfCertificate(certificate);
    return (
      trusted.includes(pin) &&
      statement.pins.includes(pin) &&
      isTrustSignature(statement, certificate, Buffer.from(signature, "base64"))
    );
  });
}
