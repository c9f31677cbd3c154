import { Fault } from "../../shared/fault/fault.ts";
import type {
  PairingRenewLapsedRequest,
  PairingRenewRequest,
} from "../../shared/gen/fairlead/v1/pairing_pb.ts";
import { isLapsedProof } from "../../shared/identity/lapsed-proof.ts";
import type { Pin } from "../../shared/identity/pin.ts";
import type { Store } from "../store/store.ts";
import type { Authorities } from "./authorities.ts";
import { readCertificateRequest, type RequestedKey } from "./certificate-request.ts";
import type { Challenges } from "./challenges.ts";
import { identifyLapsed, type IdentifiedNode, type IdentifyDeps } from "./identify.ts";
import { issueNodeCertificate, type IssuedCertificate } from "./issue.ts";
import { revokedFault } from "./nodes-repository.ts";
import type { NodeRecord } from "./nodes.ts";

/** What renewing needs of the gateway. */
export interface RenewalDeps extends IdentifyDeps {
  readonly authority: Authorities;
  readonly store: Store;
  readonly challenges: Challenges;
  /** Hears that a node's certificate was renewed, and until when it is good. */
  readonly onRenewed: (nodeId: string, expiresAt: number) => void;
}

/**
 * A certificate for the key that the connection proved. `UNAUTHENTICATED` for another key or another node's id; the one in
 * use stays as it is.
 */
export async function renewLinked(
  deps: RenewalDeps,
  { node }: IdentifiedNode,
  request: PairingRenewRequest,
): Promise<IssuedCertificate> {
  requireSameNode(node, request.nodeId);
  return await issueFor(deps, node, await readOwnKey(node, request.certificateRequest));
}

/**
 * A certificate for a node whose last one has lapsed. Nothing but the proof of the key is looked at before it holds:
 * `UNAUTHENTICATED` for a nonce, certificate, signature, key or id that does not fit, then `IDENTITY_UNKNOWN`,
 * `IDENTITY_REVOKED`, or `IDENTITY_EXPIRED` once it is too late.
 */
export async function renewLapsed(
  deps: RenewalDeps,
  request: PairingRenewLapsedRequest,
): Promise<IssuedCertificate> {
  deps.challenges.check(request.nonce);
  const prove = (pin: Pin, key: Parameters<typeof isLapsedProof>[1]): boolean =>
    isLapsedProof(
      { nonce: request.nonce, request: request.certificateRequest, certificate: request.certificate, pin },
      key,
      request.signature,
    );
  const { node } = await identifyLapsed(deps, request.certificate, prove);
  requireSameNode(node, request.nodeId);
  const key = await readOwnKey(node, request.certificateRequest);
  deps.challenges.use(request.nonce);
  return await issueFor(deps, node, key);
}

function requireSameNode(node: NodeRecord, asked: string): void {
  if (asked === "" || asked === node.id) return;
  throw refused("names another node than the certificate");
}

async function readOwnKey(node: NodeRecord, request: Uint8Array): Promise<RequestedKey> {
  const key = await readCertificateRequest(request);
  if (key.digest !== node.keyDigest) throw refused("is for another key than the certificate");
  if (key.namedNodes.some((id) => id !== node.id)) throw refused("names another node than the certificate");
  return key;
}

function refused(how: string): Fault {
  return new Fault("UNAUTHENTICATED", `the certificate request ${how}`);
}

/** The node's row says until when it is good, and a revocation that came first wins. */
async function issueFor(deps: RenewalDeps, node: NodeRecord, key: RequestedKey): Promise<IssuedCertificate> {
  const issued = await issueNodeCertificate(deps.authority.signer, {
    id: node.id,
    publicKey: key.publicKey,
    now: deps.clock.now(),
    lifeMs: deps.limits.certificateMs,
  });
  const changed = await deps.store.db
    .updateTable("nodes")
    .set({ certificate_expires_at: issued.expiresAt, issuer_pin: issued.issuerPin })
    .where("id", "=", node.id)
    .where("revoked_at", "is", null)
    .executeTakeFirst();
  if (changed.numUpdatedRows === 0n) throw revokedFault((await deps.nodes.find(node.id)) ?? node);
  deps.onRenewed(node.id, issued.expiresAt);
  return issued;
}
