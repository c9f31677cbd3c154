import { X509Certificate } from "node:crypto";

const uriPrefix = "fairlead:node:";
const idShape = /^[0-9][0-9a-f]{19}$/;

/** Whether a text is a node's id: 20 hex digits that begin with a digit, so that no id is ever an alias. */
export function isNodeId(text: string): boolean {
  return idShape.test(text);
}

/** The name that stands for a node in its certificate. */
export function nodeUri(id: string): string {
  return uriPrefix + id;
}

/** The node that a certificate names, or undefined when it is not a node's. */
export function nodeIdOf(certificate: X509Certificate): string | undefined {
  const [name, ...more] = (certificate.subjectAltName ?? "").split(", ");
  if (name === undefined || more.length > 0 || !name.startsWith(`URI:${uriPrefix}`)) return undefined;
  const id = name.slice(`URI:${uriPrefix}`.length);
  return isNodeId(id) ? id : undefined;
}

/** A certificate from DER or PEM, or undefined when the bytes are none. */
export function tryReadCertificate(bytes: Uint8Array | string): X509Certificate | undefined {
  try {
    return new X509Certificate(bytes);
  } catch {
    return undefined;
  }
}
