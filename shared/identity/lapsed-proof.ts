import { createHash, sign, verify, type KeyObject } from "node:crypto";
import { pinBytes, type Pin } from "./pin.ts";

/** What a node proves its key over when its certificate has lapsed. */
export interface LapsedProof {
  /** Of the gateway. */
  readonly nonce: Uint8Array;
  /** The certificate request, DER. */
  readonly request: Uint8Array;
  /** The lapsed certificate, DER. */
  readonly certificate: Uint8Array;
  /** The authority that the node trusts: a proof made for one gateway is none for another. */
  readonly pin: Pin;
}

const label = Buffer.from("fairlead renew lapsed 1\0", "latin1");

function proofBytes({ nonce, request, certificate, pin }: LapsedProof): Buffer {
  const digests = [nonce, request, certificate].map((part) => createHash("sha256").update(part).digest());
  return Buffer.concat([label, ...digests, pinBytes(pin)]);
}

/** Signs the proof with the node's key (PKCS#8, PEM). */
export function signLapsedProof(proof: LapsedProof, keyPem: string): Uint8Array {
  return new Uint8Array(sign("sha256", proofBytes(proof), keyPem));
}

/** Whether the signature is that of the key over just this. */
export function isLapsedProof(proof: LapsedProof, key: KeyObject, signature: Uint8Array): boolean {
  try {
    return verify("sha256", proofBytes(proof), key, signature);
  } catch {
    // Bytes that are no signature at all are as good as a wrong one.
    return false;
  }
}
