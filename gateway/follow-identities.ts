import type { JsonValue } from "../shared/fault/fault.ts";
import type { Audit } from "./audit/audit.ts";
import type { LinksOptions } from "./link/links-options.ts";
import type { CloneReport, ReportedIdentity } from "./link/links.ts";
import { type AuthorityChange, keepTrusted } from "./pairing/change-authority.ts";
import type { Store } from "./store/store.ts";

/** What is done about the identities of nodes beside their links. */
export interface FollowOptions {
  readonly store: Store;
  readonly audit: Pick<Audit, "append">;
  readonly authority: AuthorityChange;
  /** Hears what could not be kept. */
  readonly onFault: (error: unknown) => void;
}

/** What the links tell of identities, kept and recorded; and what they tell the nodes to trust. */
export function followIdentities(
  options: FollowOptions,
): Pick<LinksOptions, "trust" | "onReport" | "onClone"> {
  const { authorities } = options.authority;
  const ignored = new Map<string, number>();
  return {
    trust: () => {
      const { serial, pins, signatures } = authorities.statement;
      return {
        serial: BigInt(serial),
        pins: [...pins],
        signatures: [...signatures],
        signerPin: authorities.signer.pin,
      };
    },
    onReport: (nodeId, report) => {
      void keepTrusted(options.store.db, nodeId, report.trustedPins).catch(options.onFault);
      const serial = report.ignoredTrustSerial;
      if (serial === 0 || ignored.get(nodeId) === serial) return;
      ignored.set(nodeId, serial);
      void recordIgnored(options, nodeId, report).catch(options.onFault);
    },
    onClone: (nodeId, report) => void recordClone(options, nodeId, report).catch(options.onFault),
  };
}

/** A statement that no authority of the node had signed changed nothing there; who sent it is worth a question. */
async function recordIgnored(
  { audit, authority }: FollowOptions,
  nodeId: string,
  report: ReportedIdentity,
): Promise<void> {
  await audit.append({
    actor: `node:${nodeId}`,
    action: "authority.ignore",
    target: `authority:${authority.authorities.signer.pin}`,
    outcome: "UNAUTHENTICATED",
    nodeId,
    details: {
      reason: "announcement_not_signed",
      serial: report.ignoredTrustSerial,
      trusts: [...report.trustedPins],
    },
  });
}

/** Two machines with one identity are for the record: which of them, where and when. */
async function recordClone({ audit }: FollowOptions, nodeId: string, report: CloneReport): Promise<void> {
  const { kind, kept, other } = report;
  const toJson = ({ bootId, address, atMs }: CloneReport["kept"]): JsonValue => ({
    bootId,
    address,
    at: new Date(atMs).toISOString(),
  });
  await audit.append({
    actor: `node:${nodeId}`,
    address: kind === "refused" ? other.address : kept.address,
    action: "nodes.clone",
    target: `node:${nodeId}`,
    outcome: kind === "refused" ? "CONFLICT" : "suspected",
    nodeId,
    details: { kept: toJson(kept), other: toJson(other) },
  });
}
