import { systemClock, type Clock } from "../../shared/lifetime/clock.ts";
import type { ClientTls } from "../../shared/rpc/client-credentials.ts";
import { judgeGateway } from "./gateway-peer.ts";
import type { NodeIdentity } from "./identity.ts";

/** What a node shows when it dials its gateway, and how it judges who answers. */
export interface NodeTls {
  readonly keyPem: string;
  readonly certificatePem: string;
  /** Fails unless the chain (DER, the peer's own first) is that of the gateway; faults are those of `judgeGateway`. */
  verifyPeer(chain: readonly Uint8Array[]): void;
}

/** The TLS material of an identity. A renewed certificate needs a new one. */
export function nodeTls(identity: NodeIdentity, clock: Clock = systemClock): NodeTls {
  const { keyPem, certificatePem, pin } = identity;
  return {
    keyPem,
    certificatePem,
    verifyPeer: (chain) => {
      const fault = judgeGateway({ pin, clock }, chain);
      if (fault) throw fault;
    },
  };
}

/** The same as `openGrpcClient` takes it: `security: () => dialTls(identity)`. */
export function dialTls(identity: NodeIdentity, clock: Clock = systemClock): ClientTls {
  const { keyPem, certificatePem, pin } = identity;
  return { keyPem, certificatePem, verifyPeer: (chain) => judgeGateway({ pin, clock }, chain) };
}
