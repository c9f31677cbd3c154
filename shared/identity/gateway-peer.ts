import type { X509Certificate } from "node:crypto";
import { Fault } from "../fault/fault.ts";
import type { Clock } from "../lifetime/clock.ts";
import { tryReadCertificate } from "./node-name.ts";
import { pinOfCertificate, type Pin } from "./pin.ts";

/** Whom a node takes for its gateway. */
export interface GatewayPeerOptions {
  /** Pins of the authorities that are trusted. */
  readonly pins: readonly Pin[];
  readonly clock: Clock;
  /** Also takes a certificate that is not valid at this machine's time: to ask whose clock is wrong. */
  readonly atAnyTime?: boolean;
}

const serverAuth = "1.3.6.1.5.5.7.3.1";

/**
 * Judges the certificates that a peer showed in the handshake (DER, its own first): one of those behind the first must
 * have signed the first and have a pinned key, or be signed itself by one that has: so the next key of a gateway is known
 * by the one that it follows. The first must be a server's and valid now. The name in it does not
 * matter: a gateway may move. `PIN_MISMATCH` with both pins in the details for a peer of another authority,
 * `UNAUTHENTICATED` with `details.reason` for one of ours that is no server or not valid at this machine's time.
 */
export function judgeGateway(options: GatewayPeerOptions, chain: readonly Uint8Array[]): Fault | undefined {
  const certificates = chain.map((der) => tryReadCertificate(der));
  const [leaf, ...above] = certificates;
  if (!leaf)
    return new Fault("UNAUTHENTICATED", "the gateway showed no certificate", {
      details: { reason: "no_certificate" },
    });
  const known = above.filter((certificate) => certificate !== undefined);
  // Anyone can show a copy of the authority's certificate; only the gateway has one that it signed.
  const issuer = known.find((certificate) => isSignedBy(leaf, certificate));
  if (!issuer || !isTrusted(issuer, known, options.pins)) {
    const isCopy = known.some((certificate) => isPinned(certificate, options.pins));
    return mismatch(options.pins, isCopy ? leaf : (known.at(-1) ?? leaf));
  }
  if (leaf.ca || !leaf.keyUsage?.includes(serverAuth)) {
    return new Fault("UNAUTHENTICATED", "the peer's certificate is not that of a gateway", {
      details: { reason: "not_a_server" },
    });
  }
  return options.atAnyTime === true ? undefined : judgeTime(leaf, options.clock.now());
}

function isSignedBy(certificate: X509Certificate, issuer: X509Certificate): boolean {
  return issuer.ca && certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
}

function isPinned(certificate: X509Certificate, pins: readonly Pin[]): boolean {
  return pins.includes(pinOfCertificate(certificate));
}

function isTrusted(
  issuer: X509Certificate,
  known: readonly X509Certificate[],
  pins: readonly Pin[],
): boolean {
  if (isPinned(issuer, pins)) return true;
  return known.some((certificate) => isPinned(certificate, pins) && isSignedBy(issuer, certificate));
}

function mismatch(pins: readonly Pin[], other: X509Certificate): Fault {
  const expected = pins.join(" or ");
  const seen = pinOfCertificate(other);
  return new Fault("PIN_MISMATCH", `the gateway there has another key: expected ${expected}, seen ${seen}`, {
    details: { expected, seen },
    hint: "check the address; if the gateway was set up anew, ask for a new code with fairlead invite",
  });
}

function judgeTime(leaf: X509Certificate, now: number): Fault | undefined {
  const from = leaf.validFromDate.getTime();
  const to = leaf.validToDate.getTime();
  if (now >= from && now < to) return undefined;
  const offMs = now < from ? now - from : now - to;
  return new Fault(
    "UNAUTHENTICATED",
    `by this machine's clock (${new Date(now).toISOString()}) the gateway's certificate is not valid: it is from ${leaf.validFromDate.toISOString()} to ${leaf.validToDate.toISOString()}`,
    {
      details: { reason: "certificate_not_valid_now", offSeconds: Math.round(offMs / 1000) },
      hint: "check the clock of this machine",
      retryable: true,
    },
  );
}
