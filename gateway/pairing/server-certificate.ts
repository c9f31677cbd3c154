import { createPrivateKey } from "node:crypto";
import { isIP } from "node:net";
import { join } from "node:path";
import { tryReadCertificate } from "../../shared/identity/node-name.ts";
import { readPrivateFile, writePrivateFile } from "../../shared/identity/private-files.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Authority } from "./authority.ts";
import { issueServerCertificate, type KeyAndCertificate } from "./issue.ts";

/** What the gateway's TLS port needs. */
export interface ServerTls {
  /** The server's key, PKCS#8, PEM. */
  readonly keyPem: string;
  /** The server's certificate and then the authority's, PEM: what is sent to whoever dials. */
  readonly certificatePem: string;
  /** The authority's certificate, PEM: what clients' certificates have to be signed by. */
  readonly authorityPem: string;
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
  authority: Authority,
  options: ServerCertificateOptions,
): Promise<ServerTls> {
  const path = join(options.home, "authority", fileName);
  const kept = await readPrivateFile(path);
  const pair = kept && splitPem(kept.text);
  if (pair && isUsable(pair, { authority, ...options })) return toTls(pair, authority);
  const made = await issueServerCertificate(authority, options);
  await writePrivateFile(path, made.keyPem + made.certificatePem);
  return toTls(made, authority);
}

/** What `keepServerCertificate` takes. */
export interface KeepOptions {
  readonly authority: Authority;
  readonly home: string;
  readonly hosts: readonly string[];
  readonly clock: Clock;
  /** What is shown at the beginning. */
  readonly shown: ServerTls;
  /** Gets what is to be shown from now on. */
  readonly onChanged: ((tls: ServerTls) => void) | undefined;
}

/** Looks once a day whether the server certificate would soon end, until the signal aborts, which it rejects with. */
export async function keepServerCertificate(options: KeepOptions, signal: AbortSignal): Promise<never> {
  const { authority, home, hosts, clock } = options;
  for (let shown = options.shown.certificatePem; ;) {
    await clock.sleep(betweenLooksMs, { signal });
    // A disk that fails today is asked again tomorrow, a month before it matters.
    const next = await openServerCertificate(authority, { home, hosts, now: clock.now() }).catch(
      () => undefined,
    );
    if (next === undefined || next.certificatePem === shown) continue;
    shown = next.certificatePem;
    options.onChanged?.(next);
  }
}

function toTls(pair: KeyAndCertificate, authority: Authority): ServerTls {
  return {
    keyPem: pair.keyPem,
    certificatePem: pair.certificatePem + authority.certificatePem,
    authorityPem: authority.certificatePem,
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
