import { judgeGateway } from "../../shared/identity/gateway-peer.ts";
import { systemClock, type Clock } from "../../shared/lifetime/clock.ts";
import type { ClientTls } from "../../shared/rpc/client-credentials.ts";
import type { NodeIdentity } from "./identity.ts";

/**
 * What a node shows when it dials its gateway, and how it judges who answers. Made anew for each dial, so that a renewed
 * certificate counts: `security: () => dialTls(identity)`.
 */
export function dialTls(identity: NodeIdentity, clock: Clock = systemClock): ClientTls {
  const { keyPem, certificatePem, pins } = identity;
  return { keyPem, certificatePem, verifyPeer: (chain) => judgeGateway({ pins, clock }, chain) };
}
