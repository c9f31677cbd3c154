import { Pairing } from "../../shared/gen/fairlead/v1/pairing_pb.ts";
import { serve, type CallContext, type ServedService } from "../../shared/rpc/service.ts";
import { enrol, type EnrolDeps } from "./enrol.ts";
import { identifyNode, type IdentifiedNode } from "./identify.ts";
import type { NodeRecord } from "./nodes.ts";
import { renewLapsed, renewLinked, type RenewalDeps } from "./renewals.ts";
import { sourceOf } from "./source-address.ts";

/** What the service needs. */
export interface PairingServiceDeps extends EnrolDeps, Omit<RenewalDeps, keyof EnrolDeps> {
  /** Called after a node left and was revoked: ends its link. Never awaited by the answer. */
  readonly onLeft: (node: NodeRecord) => void;
}

/**
 * `Pairing`: `Enrol` is for anyone with a code, `RenewLapsed` for whoever proves a node's key; the others only for the node
 * whose certificate the connection showed.
 */
export function createPairingService(deps: PairingServiceDeps): ServedService {
  const certificate = (): Uint8Array => new Uint8Array(deps.authority.signer.certificate.raw);
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
      const issued = await renewLinked(deps, await identify(deps, context), request);
      return { certificate: issued.der, authority: certificate() };
    },
    challenge: async () => {
      const { bytes, expiresAt } = deps.challenges.create();
      return {
        nonce: bytes,
        nowMs: BigInt(Math.floor(deps.clock.now())),
        expiresMs: BigInt(Math.floor(expiresAt)),
      };
    },
    renewLapsed: async (request) => ({ certificate: (await renewLapsed(deps, request)).der }),
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
