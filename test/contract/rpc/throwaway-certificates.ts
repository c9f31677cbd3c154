import { randomUUID, webcrypto, X509Certificate as NodeCertificate } from "node:crypto";
import type { X509Certificate } from "@peculiar/x509";
import { Fault } from "../../../shared/fault/fault.ts";
import { loadX509 } from "../../../shared/identity/x509.ts";
import type { ClientTls } from "../../../shared/rpc/client-credentials.ts";
import type { ServerTls } from "../../../shared/rpc/server-credentials.ts";

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const dayMs = 24 * 60 * 60 * 1000;

/** An authority for one test, with what a server and its clients need. */
export interface Authority {
  readonly server: ServerTls;
  /** TLS material of a client that trusts the authority; `name` becomes its common name. */
  client(name: string): Promise<ClientTls>;
  /** Material of a client without a certificate. */
  readonly stranger: ClientTls;
}

async function keyPem(keys: webcrypto.CryptoKeyPair): Promise<string> {
  const bytes = await webcrypto.subtle.exportKey("pkcs8", keys.privateKey);
  return `-----BEGIN PRIVATE KEY-----\n${Buffer.from(bytes).toString("base64")}\n-----END PRIVATE KEY-----\n`;
}

/** Makes an authority and a server certificate. */
export async function makeAuthority(): Promise<Authority> {
  const { X509CertificateGenerator, BasicConstraintsExtension } = await loadX509();
  const generate = (): Promise<webcrypto.CryptoKeyPair> =>
    webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const span = { notBefore: new Date(Date.now() - dayMs), notAfter: new Date(Date.now() + dayMs) };
  const authorityKeys = await generate();
  const authority = await X509CertificateGenerator.createSelfSigned({
    name: `CN=test authority ${randomUUID()}`,
    keys: authorityKeys,
    signingAlgorithm: algorithm,
    extensions: [new BasicConstraintsExtension(true, undefined, true)],
    ...span,
  });
  const issue = async (name: string): Promise<{ certificate: X509Certificate; keyPem: string }> => {
    const keys = await generate();
    const certificate = await X509CertificateGenerator.create({
      subject: `CN=${name}`,
      issuer: authority.subject,
      publicKey: keys.publicKey,
      signingKey: authorityKeys.privateKey,
      signingAlgorithm: algorithm,
      ...span,
    });
    return { certificate, keyPem: await keyPem(keys) };
  };
  const authorityPem = authority.toString("pem");
  const trusted = new NodeCertificate(authorityPem);
  const verifyPeer = (chain: readonly Uint8Array[]): Fault | undefined => {
    const [own] = chain;
    if (own && new NodeCertificate(own).verify(trusted.publicKey)) return undefined;
    return new Fault("PIN_MISMATCH", "the server is not the one that was meant");
  };
  const server = await issue("test server");
  return {
    server: {
      keyPem: server.keyPem,
      certificatePem: `${server.certificate.toString("pem")}\n${authorityPem}`,
      authorityPem,
    },
    client: async (name) => {
      const made = await issue(name);
      return { keyPem: made.keyPem, certificatePem: made.certificate.toString("pem"), verifyPeer };
    },
    stranger: { verifyPeer },
  };
}
