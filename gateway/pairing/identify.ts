import type { KeyObject, X509Certificate } from "node:crypto";
import { Fault } from "../../shared/fault/fault.ts";
import { nodeIdOf, tryReadCertificate } from "../../shared/identity/node-name.ts";
import { pinOfCertificate, type Pin } from "../../shared/identity/pin.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Authorities } from "./authorities.ts";
import { revokedFault } from "./nodes-repository.ts";
import type { NodeRecord, Nodes } from "./nodes.ts";
import type { CertificateLimits } from "./pairing-limits.ts";

/** What judging a certificate needs. */
export interface IdentifyDeps {
  readonly authority: Pick<Authorities, "trusted">;
  readonly nodes: Nodes;
  readonly clock: Clock;
  readonly limits: CertificateLimits;
}

/** A node whose certificate was judged. */
export interface IdentifiedNode {
  readonly node: NodeRecord;
  readonly certificate: X509Certificate;
}

/**
 * The node that a peer's certificate (DER, proved by the handshake) is for, judged by what the store says at this moment.
 * `UNAUTHENTICATED` for none or one that this authority did not make for a node, `IDENTITY_UNKNOWN` for a node that the
 * store has not, `IDENTITY_REVOKED`, and `IDENTITY_EXPIRED`, which is retryable while the node may still renew.
 */
export async function identifyNode(deps: IdentifyDeps, der: Uint8Array | undefined): Promise<IdentifiedNode> {
  const { certificate, nodeId } = ownCertificate(deps, der);
  const node = await knownNode(deps, certificate, nodeId);
  checkTime(deps, certificate, node);
  return { node, certificate };
}

/** Whether the holder of `key` proved it for the authority with this pin. */
export type KeyProof = (pin: Pin, key: KeyObject) => boolean;

/**
 * The node of a certificate that no handshake proved, because it has lapsed: its key is proved by `prove` instead, before
 * anything of the node is looked at. One that lapsed for too long is `IDENTITY_EXPIRED`, not retryable; the other faults
 * are those of `identifyNode`.
 */
export async function identifyLapsed(
  deps: IdentifyDeps,
  der: Uint8Array,
  prove: KeyProof,
): Promise<IdentifiedNode> {
  const { certificate, nodeId } = ownCertificate(deps, der);
  if (!deps.authority.trusted.some(({ pin }) => prove(pin, certificate.publicKey))) {
    throw new Fault("UNAUTHENTICATED", "the proof is not of the certificate's key");
  }
  const node = await knownNode(deps, certificate, nodeId);
  if (!canRenew(deps, certificate)) checkTime(deps, certificate, node);
  return { node, certificate };
}

function ownCertificate(
  deps: IdentifyDeps,
  der: Uint8Array | undefined,
): { readonly certificate: X509Certificate; readonly nodeId: string } {
  const certificate = der && tryReadCertificate(der);
  const nodeId = certificate && ownNodeId(deps.authority, certificate);
  if (certificate && nodeId !== undefined) return { certificate, nodeId };
  throw new Fault("UNAUTHENTICATED", "the peer showed no certificate of a node of this gateway", {
    hint: "pair the machine with fairlead node join CODE",
  });
}

async function knownNode(
  deps: IdentifyDeps,
  certificate: X509Certificate,
  nodeId: string,
): Promise<NodeRecord> {
  const node = await deps.nodes.find(nodeId);
  if (!node || node.keyDigest !== pinOfCertificate(certificate)) {
    throw new Fault("IDENTITY_UNKNOWN", `this gateway knows no node ${nodeId} with this key`, {
      details: { nodeId },
      hint: "to pair the machine again: fairlead invite, then fairlead node join CODE on it",
    });
  }
  if (node.revokedAt !== undefined) throw revokedFault(node);
  return node;
}

function ownNodeId({ trusted }: IdentifyDeps["authority"], certificate: X509Certificate): string | undefined {
  const isOurs = trusted.some(
    ({ certificate: ours }) => certificate.checkIssued(ours) && certificate.verify(ours.publicKey),
  );
  return isOurs ? nodeIdOf(certificate) : undefined;
}

function canRenew({ clock, limits }: IdentifyDeps, certificate: X509Certificate): boolean {
  return clock.now() < certificate.validToDate.getTime() + limits.lapsedRenewalMs;
}

function checkTime(deps: IdentifyDeps, certificate: X509Certificate, node: NodeRecord): void {
  const expiredAt = certificate.validToDate.getTime();
  if (deps.clock.now() < expiredAt) return;
  const renews = canRenew(deps, certificate);
  throw new Fault(
    "IDENTITY_EXPIRED",
    `the certificate of node ${node.alias} expired at ${certificate.validToDate.toISOString()}`,
    {
      retryable: renews,
      details: { nodeId: node.id, expiredAt },
      hint: renews
        ? "the node renews it by itself"
        : "pair the machine again: fairlead invite, then fairlead node join CODE on it",
    },
  );
}
