import { createPrivateKey } from "node:crypto";
import { isIP } from "node:net";
import { join } from "node:path";
import { tryReadCertificate } from "../../shared/identity/node-name.ts";
import { readPrivateFile, writePrivateFile } from "../../shared/identity/private-files.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Authorities } from "./authorities.ts";
import type { Authority } from "./authority.ts";
import { issueServerCertificate, type KeyAndCertificate } from "./issue.ts";

/** What the gateway's TLS port needs. */
export interface ServerTls {
  /** The server's key, PKCS#8, PEM. */
  readonly keyPem: string;
  /** The server's certificate and then those that lead to the authority, PEM: what is sent to whoever dials. */
  readonly certificatePem: string;
  /** The certificates of all authorities that count, PEM: what clients' certificates have to be signed by. */
  readonly authorityPem: string;
  /** The same of authorities that went: a machine with one of theirs is let in as far as to be told so. */
  readonly retiredPem: string;
}

/** What `openServerCertificate` takes beside the authority. */
export interface ServerCertificateOptions {
  /** The gateway's folder. */
  readonly home: string;
  /** Names and IP addresses that the certificate is for. */
  readonly hosts: readonly string[];
  /** The time, in milliseconds since 1970. */
  readonly now: number;
}

const renewBeforeMs = 30 * 86_400_000;
const betweenLooksMs = 86_400_000;
const fileName = "server.pem";

/**
 * The server certificate of a home: the one on disk, or a new one with a new key when there is none that this authority
 * signed for all of `hosts` and that lasts another 30 days. Nodes pin the authority, so a new one changes nothing for them.
 */
export async function openServerCertificate(
  authorities: ServerAuthorities,
  options: ServerCertificateOptions,
): Promise<ServerTls> {
  const authority = authorities.signer;
  const path = join(options.home, "authority", fileName);
  const kept = await readPrivateFile(path);
  const pair = kept && splitPem(kept.text);
  if (pair && isUsable(pair, { authority, ...options })) return toTls(pair, authorities);
  const made = await issueServerCertificate(authority, options);
  await writePrivateFile(path, made.keyPem + made.certificatePem);
  return toTls(made, authorities);
}

/** Who signs for the TLS port, and whom it believes. */
export type ServerAuthorities = Pick<Authorities, "signer" | "trusted" | "retired" | "chainPem">;

/** What `keepServerCertificate` takes. */
export interface KeepOptions {
  /** Opens it as it has to be now, and shows it to connections to come when it is another. */
  readonly renew: () => Promise<void>;
  readonly clock: Clock;
}

/** Looks once a day whether the server certificate would soon end, until the signal aborts, which it rejects with. */
export async function keepServerCertificate(
  { renew, clock }: KeepOptions,
  signal: AbortSignal,
): Promise<never> {
  for (;;) {
    await clock.sleep(betweenLooksMs, { signal });
    // A disk that fails today is asked again tomorrow, a month before it matters.
    await renew().catch(() => undefined);
  }
}

function toTls(pair: KeyAndCertificate, authorities: ServerAuthorities): ServerTls {
  return {
    keyPem: pair.keyPem,
    certificatePem: pair.certificatePem + authorities.chainPem,
    authorityPem: authorities.trusted.map(({ certificatePem }) => certificatePem).join(""),
    retiredPem: authorities.retired.join(""),
  };
}

function splitPem(text: string): KeyAndCertificate | undefined {
  const at = text.indexOf("-----BEGIN CERTIFICATE-----");
  return at <= 0 ? undefined : { keyPem: text.slice(0, at), certificatePem: text.slice(at) };
}

function isUsable(
  pair: KeyAndCertificate,
  asked: ServerCertificateOptions & { readonly authority: Authority },
): boolean {
  const certificate = tryReadCertificate(pair.certificatePem);
  if (!certificate?.checkIssued(asked.authority.certificate)) return false;
  if (!certificate.verify(asked.authority.certificate.publicKey)) return false;
  if (certificate.validFromDate.getTime() > asked.now) return false;
  if (certificate.validToDate.getTime() < asked.now + renewBeforeMs) return false;
  const covers = (host: string): boolean =>
    (isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host)) !== undefined;
  try {
    return asked.hosts.every(covers) && certificate.checkPrivateKey(createPrivateKey(pair.keyPem));
  } catch {
    return false;
  }
}
