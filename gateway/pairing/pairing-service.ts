import { Fault } from "../../shared/fault/fault.ts";
import { Pairing } from "../../shared/gen/fairlead/v1/pairing_pb.ts";
import { serve, type CallContext, type ServedService } from "../../shared/rpc/service.ts";
import { readCertificateRequest } from "./certificate-request.ts";
import { enrol, type EnrolDeps } from "./enrol.ts";
import { identifyNode, type IdentifiedNode } from "./identify.ts";
import { issueNodeCertificate, type IssuedCertificate } from "./issue.ts";
import { revokedFault } from "./nodes-repository.ts";
import type { NodeRecord, Nodes } from "./nodes.ts";
import { sourceOf } from "./source-address.ts";

/** What the service needs. */
export interface PairingServiceDeps extends EnrolDeps {
  readonly nodes: Nodes;
  /** Called after a node left and was revoked: ends its link. Never awaited by the answer. */
  readonly onLeft: (node: NodeRecord) => void;
}

/** `Pairing`: `Enrol` is for anyone with a code, the others only for the node whose certificate the connection showed. */
export function createPairingService(deps: PairingServiceDeps): ServedService {
  const certificate = (): Uint8Array => new Uint8Array(deps.authority.certificate.raw);
  return serve(Pairing, {
    enrol: async (request, context) => {
      const enrolled = await enrol(deps, request, {
        from: sourceOf(context.peer.address),
        signal: context.signal,
      });
      return {
        nodeId: enrolled.node.id,
        alias: enrolled.node.alias,
        certificate: enrolled.certificate,
        authority: certificate(),
        profile: enrolled.node.profile,
      };
    },
    renew: async (request, context) => {
      const issued = await renew(deps, await identify(deps, context), request.certificateRequest);
      return { certificate: issued.der, authority: certificate() };
    },
    leave: async (_request, context) => {
      const { node } = await identify(deps, context);
      await deps.nodes.revoke(node.id);
      deps.onLeft(node);
      return {};
    },
  });
}

function identify(deps: PairingServiceDeps, context: CallContext): Promise<IdentifiedNode> {
  return identifyNode(deps, context.peer.certificate);
}

/** A certificate for the same key alone. The node's row says until when, and a revocation that came first wins. */
async function renew(
  deps: PairingServiceDeps,
  { node }: IdentifiedNode,
  request: Uint8Array,
): Promise<IssuedCertificate> {
  const key = await readCertificateRequest(request);
  if (key.digest !== node.keyDigest) {
    throw new Fault(
      "UNAUTHENTICATED",
      "the certificate request is for another key than that of the connection",
    );
  }
  const now = deps.clock.now();
  const issued = await issueNodeCertificate(deps.authority, { id: node.id, publicKey: key.publicKey, now });
  const changed = await deps.store.db
    .updateTable("nodes")
    .set({ certificate_expires_at: issued.expiresAt })
    .where("id", "=", node.id)
    .where("revoked_at", "is", null)
    .executeTakeFirst();
  if (changed.numUpdatedRows === 0n) throw revokedFault((await deps.nodes.find(node.id)) ?? node);
  return issued;
}
