import type { X509Certificate } from "node:crypto";
import { Fault } from "../../shared/fault/fault.ts";
import { nodeIdOf, tryReadCertificate } from "../../shared/identity/node-name.ts";
import { pinOfCertificate } from "../../shared/identity/pin.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Authority } from "./authority.ts";
import { revokedFault } from "./nodes-repository.ts";
import type { NodeRecord, Nodes } from "./nodes.ts";

/** How long a lapsed certificate may still be renewed. */
const lapsedRenewalMs = 90 * 86_400_000;

/** What judging a certificate needs. */
export interface IdentifyDeps {
  readonly authority: Authority;
  readonly nodes: Nodes;
  readonly clock: Clock;
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
  const certificate = der && tryReadCertificate(der);
  const nodeId = certificate && ownNodeId(deps.authority, certificate);
  if (!certificate || nodeId === undefined) {
    throw new Fault("UNAUTHENTICATED", "the peer showed no certificate of a node of this gateway", {
      hint: "pair the machine with fairlead node join CODE",
    });
  }
  const node = await deps.nodes.find(nodeId);
  if (!node || node.keyDigest !== pinOfCertificate(certificate)) {
    throw new Fault("IDENTITY_UNKNOWN", `this gateway knows no node ${nodeId} with this key`, {
      details: { nodeId },
      hint: "to pair the machine again: fairlead invite, then fairlead node join CODE on it",
    });
  }
  if (node.revokedAt !== undefined) throw revokedFault(node);
  checkTime(certificate, node, deps.clock.now());
  return { node, certificate };
}

function ownNodeId(authority: Authority, certificate: X509Certificate): string | undefined {
  const ours = authority.certificate;
  const isOurs = certificate.checkIssued(ours) && certificate.verify(ours.publicKey);
  return isOurs ? nodeIdOf(certificate) : undefined;
}

function checkTime(certificate: X509Certificate, node: NodeRecord, now: number): void {
  const expiredAt = certificate.validToDate.getTime();
  if (now < expiredAt) return;
  const canRenew = now < expiredAt + lapsedRenewalMs;
  throw new Fault(
    "IDENTITY_EXPIRED",
    `the certificate of node ${node.alias} expired at ${certificate.validToDate.toISOString()}`,
    {
      retryable: canRenew,
      details: { nodeId: node.id, expiredAt },
      hint: canRenew
        ? "the node renews it by itself"
        : "pair the machine again: fairlead invite, then fairlead node join CODE on it",
    },
  );
}
