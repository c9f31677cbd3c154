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
  /** Ids of nodes that the request's subject names: looked at only where another one than the asker's is a lie. */
  readonly namedNodes: readonly string[];
}

const maxRequestBytes = 8_192;

/**
 * The public key of a PKCS#10 request whose signature proves that its maker holds the private half. `INVALID_ARGUMENT`
 * for anything that is no such request, or whose key is not on P-256. Names and extensions that it asks for give it nothing.
 */
export async function readCertificateRequest(der: Uint8Array): Promise<RequestedKey> {
  if (der.length === 0 || der.length > maxRequestBytes) throw refused("is missing or too long");
  const verified = await tryVerifiedKey(der);
  if (!verified) throw refused("is not signed with its own P-256 key");
  return { ...verified, digest: pinOfPublicKey(verified.publicKey) };
}

async function tryVerifiedKey(der: Uint8Array): Promise<Omit<RequestedKey, "digest"> | undefined> {
  const { Pkcs10CertificateRequest } = await loadX509();
  try {
    const request = new Pkcs10CertificateRequest(Uint8Array.from(der));
    // Written anew from the parsed key, so that equal keys have equal bytes, and so equal digests.
    const key = createPublicKey({ key: Buffer.from(request.publicKey.rawData), format: "der", type: "spki" });
    if (!isP256(key) || !(await request.verify())) return undefined;
    const namedNodes = request.subject.match(/\b[0-9][0-9a-f]{19}\b/g) ?? [];
    return { publicKey: key.export({ type: "spki", format: "der" }), namedNodes };
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
