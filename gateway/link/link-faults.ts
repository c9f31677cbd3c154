import { Fault } from "../../shared/fault/fault.ts";
import type { ServerConnection } from "../../shared/rpc/raw-stream.ts";

/** The `details.reason` of a fault, for a state; `link_lost` when it has none. */
export function reasonOf({ details }: Fault): string {
  const { reason } = details as { readonly reason?: unknown };
  return typeof reason === "string" ? reason : "link_lost";
}

/** Why a node that said goodbye is gone: it left, or it would not be this gateway's. */
export function goodbyeOf({ draining }: { readonly draining: string | undefined }): string {
  return draining === "older_owner" ? "older_owner" : "goodbye";
}

/** What a peer gets that shows no certificate, a foreign one or one that has expired. */
export function unprovenFault(refusal: string | undefined): Fault {
  if (refusal === "CERT_HAS_EXPIRED") {
    return new Fault("IDENTITY_EXPIRED", "the node's certificate has expired", { retryable: true });
  }
  return new Fault("UNAUTHENTICATED", "a link needs a certificate of this gateway's authority", {
    details: { reason: refusal === undefined ? "no_certificate" : "foreign_certificate" },
  });
}

/** What a stream gets that belongs to no accepted link. */
export function noHelloFault(): Fault {
  return new Fault("NOT_FOUND", "no link with that generation was accepted on this connection");
}

/** What a stream gets whose connection is no link: its peer is not proven, or has said no hello that was accepted. */
export function noLinkFault({ peer, refusal }: Pick<ServerConnection, "peer" | "refusal">): Fault {
  return peer.certificate ? noHelloFault() : unprovenFault(refusal);
}

/** What the calls of a link end with when its node links again. */
export function replacedFault(alias: string): Fault {
  return new Fault("NODE_OFFLINE", `${alias} linked again`, { details: { node: alias, reason: "replaced" } });
}

/** What a link ends with whose node was silent for too long. */
export function silentFault(alias: string): Fault {
  return new Fault("NODE_OFFLINE", `${alias} gave no sign of life`, {
    details: { node: alias, reason: "heartbeat_missed" },
  });
}
