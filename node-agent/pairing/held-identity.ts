import { X509Certificate } from "node:crypto";
import type { Pin } from "../../shared/identity/pin.ts";
import { replaceCertificate, replaceTrust, type NodeIdentity } from "./identity.ts";

/** The identity of a running agent: one value for all who use it, changed by one writer at a time. */
export interface HeldIdentity {
  /** As it is now; it is on the disk. */
  readonly current: NodeIdentity;
  /** Puts a renewed certificate (DER) in the place of the present one; `INTEGRITY_FAILURE` when it is not for this key. */
  renewed(certificate: Uint8Array): Promise<NodeIdentity>;
  /** Trusts other authorities from now on. */
  trusts(pins: readonly Pin[], trustSerial: number): Promise<NodeIdentity>;
}

/** Holds the identity that was loaded from a node's folder. */
export function holdIdentity(dir: string, loaded: NodeIdentity): HeldIdentity {
  let current = loaded;
  let turn: Promise<unknown> = Promise.resolve();
  const inTurn = (change: (now: NodeIdentity) => Promise<NodeIdentity>): Promise<NodeIdentity> => {
    const mine = turn.then(async () => (current = await change(current)));
    turn = mine.catch(() => undefined);
    return mine;
  };
  return {
    get current() {
      return current;
    },
    renewed: (certificate) =>
      inTurn((now) => replaceCertificate(dir, now, new X509Certificate(certificate).toString())),
    trusts: (pins, trustSerial) => inTurn((now) => replaceTrust(dir, now, { pins, trustSerial })),
  };
}
