import type { NodesTable } from "../store/tables.ts";
import type { NodeProfile, NodeRecord } from "./nodes.ts";

/** The profiles, from the narrowest on. */
export const nodeProfiles: readonly NodeProfile[] = ["read", "work", "full"];

/** Whether a text is a profile. */
export function isNodeProfile(text: string): text is NodeProfile {
  return nodeProfiles.some((profile) => profile === text);
}

/** A profile as the store keeps it; one that this version does not know is the narrowest. */
export function toProfile(text: string): NodeProfile {
  return isNodeProfile(text) ? text : "read";
}

/** A row as the other rooms see it. */
export function toNodeRecord(row: NodesTable): NodeRecord {
  return {
    id: row.id,
    alias: row.alias,
    labels: readLabels(row.labels_json),
    profile: toProfile(row.profile),
    note: row.note,
    keyDigest: row.key_digest,
    pairedAt: row.paired_at,
    certificateExpiresAt: row.certificate_expires_at,
    issuerPin: row.issuer_pin,
    revokedAt: row.revoked_at ?? undefined,
    hostName: row.host_name,
    platform: row.platform,
  };
}

/** Labels as the store keeps them. */
export function readLabels(json: string): Readonly<Record<string, string>> {
  const labels: unknown = JSON.parse(json);
  if (typeof labels !== "object" || labels === null) return {};
  return Object.fromEntries(
    Object.entries(labels).filter((entry): entry is [string, string] => typeof entry[1] === "string"),
  );
}
