import { X509Certificate } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { issueNodeCertificate } from "../../gateway/pairing/issue.ts";
import { publicKeyOf } from "../../shared/identity/keys.ts";
import { nodeIdOf } from "../../shared/identity/node-name.ts";

const dayMs = 86_400_000;

/** What a certificate of the past is made from. */
export interface LapsedOptions {
  /** The gateway's home; its authority signs. */
  readonly gatewayHome: string;
  /** The node's home, stopped. */
  readonly nodeHome: string;
  /** For how many days the certificate has been over. */
  readonly days: number;
}

/** Puts into a node's home a certificate as its gateway would have issued it, had it lapsed some days ago. */
export async function lapseCertificate({ gatewayHome, nodeHome, days }: LapsedOptions): Promise<void> {
  const authority = join(gatewayHome, "gateway/authority");
  const signer = {
    keyPem: await readFile(join(authority, "key.pem"), "utf8"),
    certificatePem: await readFile(join(authority, "cert.pem"), "utf8"),
  };
  const file = join(nodeHome, "node/identity/cert.pem");
  const keyPem = await readFile(join(nodeHome, "node/identity/key.pem"), "utf8");
  const id = nodeIdOf(new X509Certificate(await readFile(file))) ?? "";
  const { pem } = await issueNodeCertificate(signer, {
    id,
    publicKey: publicKeyOf(keyPem),
    now: Date.now() - (7 + days) * dayMs,
  });
  await writeFile(file, pem);
}
