import { randomBytes } from "node:crypto";
import { isIP } from "node:net";
import type { Extension, JsonGeneralNames } from "@peculiar/x509";
import {
  createKeyPem,
  publicKeyOf,
  signingAlgorithm,
  signingKeyFrom,
  verifyingKeyFrom,
} from "../../shared/identity/keys.ts";
import { nodeUri } from "../../shared/identity/node-name.ts";
import { pinOfPublicKey, type Pin } from "../../shared/identity/pin.ts";
import { loadX509 } from "../../shared/identity/x509.ts";
import { defaultCertificateLimits } from "./pairing-limits.ts";

const dayMs = 86_400_000;

/** How long a server certificate is valid. */
const serverCertificateMs = 365 * dayMs;
const authorityCertificateMs = 20 * 365 * dayMs;

// Clocks differ: a certificate is valid a little before it was made, and its whole time counts from there.
const longestNodeSkewMs = 5 * 60_000;
const gatewaySkewMs = dayMs;

/** A key with its certificate, PEM both. */
export interface KeyAndCertificate {
  readonly keyPem: string;
  readonly certificatePem: string;
}

/** Who signs. */
export interface Signer {
  /** PKCS#8, PEM. */
  readonly keyPem: string;
  /** The authority's certificate, PEM. */
  readonly certificatePem: string;
}

/** A certificate that was just made. */
export interface IssuedCertificate {
  readonly der: Uint8Array;
  readonly pem: string;
  /** When it ends, in milliseconds since 1970. */
  readonly expiresAt: number;
  /** The pin of the authority that signed it. */
  readonly issuerPin: Pin;
}

/** A new authority: its key, and a certificate that it signed itself and that may sign only leaves. */
export async function createAuthority(now: number): Promise<KeyAndCertificate> {
  const x509 = await loadX509();
  const keyPem = await createKeyPem();
  const publicKey = await verifyingKeyFrom(publicKeyOf(keyPem));
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    keys: { privateKey: await signingKeyFrom(keyPem), publicKey },
    // Two authorities never share a name: TLS would take the one's certificates for badly signed ones of the other.
    name: `CN=Fairlead authority ${pinOfPublicKey(publicKeyOf(keyPem)).slice("sha256:".length, "sha256:".length + 16)}`,
    serialNumber: randomSerial(),
    notBefore: new Date(now - gatewaySkewMs),
    notAfter: new Date(now + authorityCertificateMs),
    signingAlgorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(publicKey),
    ],
  });
  return { keyPem, certificatePem: pemText(certificate.toString("pem")) };
}

/**
 * A certificate of the next authority's key that the current one signs, PEM: by it whoever trusts only the current one
 * knows what the next one has signed.
 */
export async function issueCrossCertificate(current: Signer, next: Signer, now: number): Promise<string> {
  const x509 = await loadX509();
  const issuer = new x509.X509Certificate(current.certificatePem);
  const subject = new x509.X509Certificate(next.certificatePem);
  const publicKey = await verifyingKeyFrom(publicKeyOf(next.keyPem));
  const certificate = await x509.X509CertificateGenerator.create({
    subject: subject.subjectName,
    issuer: issuer.subjectName,
    serialNumber: randomSerial(),
    notBefore: new Date(now - gatewaySkewMs),
    notAfter: issuer.notAfter,
    publicKey,
    signingKey: await signingKeyFrom(current.keyPem),
    signingAlgorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(await verifyingKeyFrom(publicKeyOf(current.keyPem))),
    ],
  });
  return pemText(certificate.toString("pem"));
}

/**
 * A node's certificate: for its id alone, to be a client and nothing else. Of whoever asks, only the public key is in it.
 */
export async function issueNodeCertificate(
  signer: Signer,
  node: {
    readonly id: string;
    readonly publicKey: Uint8Array;
    readonly now: number;
    /** From its beginning to its end, in milliseconds; seven days by default. */
    readonly lifeMs?: number;
  },
): Promise<IssuedCertificate> {
  const { ExtendedKeyUsage } = await loadX509();
  const { lifeMs = defaultCertificateLimits.certificateMs } = node;
  const notBefore = node.now - Math.min(longestNodeSkewMs, lifeMs / 20);
  return await issueLeaf(signer, {
    name: node.id,
    publicKey: node.publicKey,
    usage: ExtendedKeyUsage.clientAuth,
    names: [{ type: "url", value: nodeUri(node.id) }],
    notBefore,
    notAfter: notBefore + lifeMs,
  });
}

/** A key for the gateway's TLS port, a new one unless it is given, with a certificate for `hosts` (names and IP addresses). */
export async function issueServerCertificate(
  signer: Signer,
  server: { readonly hosts: readonly string[]; readonly now: number; readonly keyPem?: string },
): Promise<KeyAndCertificate> {
  const { ExtendedKeyUsage } = await loadX509();
  const keyPem = server.keyPem ?? (await createKeyPem());
  const issued = await issueLeaf(signer, {
    name: "Fairlead gateway",
    publicKey: publicKeyOf(keyPem),
    usage: ExtendedKeyUsage.serverAuth,
    names: server.hosts.map((host) => ({ type: isIP(host) === 0 ? "dns" : "ip", value: host }) as const),
    notBefore: server.now - gatewaySkewMs,
    notAfter: server.now + serverCertificateMs,
  });
  return { keyPem, certificatePem: issued.pem };
}

interface Leaf {
  readonly name: string;
  readonly publicKey: Uint8Array;
  readonly usage: string;
  readonly names: JsonGeneralNames;
  readonly notBefore: number;
  readonly notAfter: number;
}

async function issueLeaf(signer: Signer, leaf: Leaf): Promise<IssuedCertificate> {
  const x509 = await loadX509();
  const authority = new x509.X509Certificate(signer.certificatePem);
  const extensions: Extension[] = [
    new x509.BasicConstraintsExtension(false, undefined, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
    new x509.ExtendedKeyUsageExtension([leaf.usage], true),
    new x509.SubjectAlternativeNameExtension(leaf.names),
    await x509.AuthorityKeyIdentifierExtension.create(await verifyingKeyFrom(publicKeyOf(signer.keyPem))),
  ];
  const certificate = await x509.X509CertificateGenerator.create({
    subject: [{ CN: [leaf.name] }],
    issuer: authority.subjectName,
    serialNumber: randomSerial(),
    notBefore: new Date(leaf.notBefore),
    notAfter: new Date(leaf.notAfter),
    publicKey: await verifyingKeyFrom(leaf.publicKey),
    signingKey: await signingKeyFrom(signer.keyPem),
    signingAlgorithm,
    extensions,
  });
  return {
    der: new Uint8Array(certificate.rawData),
    pem: pemText(certificate.toString("pem")),
    // A certificate holds whole seconds.
    expiresAt: certificate.notAfter.getTime(),
    issuerPin: pinOfPublicKey(publicKeyOf(signer.keyPem)),
  };
}

function randomSerial(): string {
  const bytes = randomBytes(16);
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return bytes.toString("hex");
}

function pemText(pem: string): string {
  return `${pem.trim()}\n`;
}
