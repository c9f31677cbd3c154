import { createPublicKey } from "node:crypto";
import { Fault } from "../../shared/fault/fault.ts";
import { isP256 } from "../../shared/identity/keys.ts";
import { pinOfPublicKey, type Pin } from "../../shared/identity/pin.ts";
import { loadX509 } from "../../shared/identity/x509.ts";

/** All that is taken from a certificate request. */
export interface RequestedKey {
  /** SubjectPublicKeyInfo, DER. */
  readonly publicKey: Uint8Array;
  /** Its digest. */
  readonly digest: Pin;
}

const maxRequestBytes = 8_192;

/**
 * The public key of a PKCS#10 request whose signature proves that its maker holds the private half. `INVALID_ARGUMENT`
 * for anything that is no such request, or whose key is not on P-256. Names and extensions that it asks for are not read.
 */
export async function readCertificateRequest(der: Uint8Array): Promise<RequestedKey> {
  if (der.length === 0 || der.length > maxRequestBytes) throw refused("is missing or too long");
  const publicKey = await tryVerifiedKey(der);
  if (!publicKey) throw refused("is not signed with its own P-256 key");
  return { publicKey, digest: pinOfPublicKey(publicKey) };
}

async function tryVerifiedKey(der: Uint8Array): Promise<Uint8Array | undefined> {
  const { Pkcs10CertificateRequest } = await loadX509();
  try {
    const request = new Pkcs10CertificateRequest(Uint8Array.from(der));
    // Written anew from the parsed key, so that equal keys have equal bytes, and so equal digests.
    const key = createPublicKey({ key: Buffer.from(request.publicKey.rawData), format: "der", type: "spki" });
    if (!isP256(key) || !(await request.verify())) return undefined;
    return key.export({ type: "spki", format: "der" });
  } catch {
    // Whatever its parser makes of foreign bytes is one and the same refusal.
    return undefined;
  }
}

function refused(how: string): Fault {
  return new Fault("INVALID_ARGUMENT", `the certificate request ${how}`, {
    details: { field: "certificate_request" },
  });
}
