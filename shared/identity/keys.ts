import { createPrivateKey, createPublicKey, generateKeyPair, webcrypto, type KeyObject } from "node:crypto";
import { promisify } from "node:util";
import { loadX509 } from "./x509.ts";

/** How every key of an identity signs: ECDSA on P-256 with SHA-256. */
export const signingAlgorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

const generate = promisify(generateKeyPair);

/** A new P-256 key as PKCS#8, PEM. */
export async function createKeyPem(): Promise<string> {
  const { privateKey } = await generate("ec", { namedCurve: "P-256" });
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

/** Whether a key is an elliptic one on P-256, the only kind that identities have. */
export function isP256(key: KeyObject): boolean {
  return key.asymmetricKeyType === "ec" && key.asymmetricKeyDetails?.namedCurve === "prime256v1";
}

/** The public half of a private key, as SubjectPublicKeyInfo, DER. */
export function publicKeyOf(keyPem: string): Uint8Array {
  return createPublicKey(keyPem).export({ type: "spki", format: "der" });
}

/** A private key for signing certificates and requests. It can't be exported again. */
export function signingKeyFrom(keyPem: string): Promise<webcrypto.CryptoKey> {
  const pkcs8 = createPrivateKey(keyPem).export({ type: "pkcs8", format: "der" });
  return webcrypto.subtle.importKey("pkcs8", pkcs8, signingAlgorithm, false, ["sign"]);
}

/** A public key, given as SubjectPublicKeyInfo, for checking signatures and for putting into certificates. */
export function verifyingKeyFrom(spki: Uint8Array): Promise<webcrypto.CryptoKey> {
  return webcrypto.subtle.importKey("spki", spki, signingAlgorithm, true, ["verify"]);
}

/** A PKCS#10 request for the key, DER: it carries the public key and proves that its maker holds the private one. */
export async function createCertificateRequest(keyPem: string): Promise<Uint8Array> {
  const { Pkcs10CertificateRequestGenerator } = await loadX509();
  const request = await Pkcs10CertificateRequestGenerator.create({
    keys: {
      privateKey: await signingKeyFrom(keyPem),
      publicKey: await verifyingKeyFrom(publicKeyOf(keyPem)),
    },
    name: "CN=node",
    signingAlgorithm,
  });
  return new Uint8Array(request.rawData);
}
