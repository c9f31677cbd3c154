import { Fault } from "../../shared/fault/fault.ts";
import type { PairingEnrolRequest } from "../../shared/gen/fairlead/v1/pairing_pb.ts";
import type { EnrolmentRequestsTable, JoinCodesTable } from "../store/tables.ts";
import type { EnrolmentRequest } from "./enrolments.ts";
import { readLabels, toProfile } from "./node-rows.ts";
import { toReportedText } from "./reported-text.ts";

/** Most workspaces that a request may name. */
const maxWorkspaces = 200;

/** The columns that an approval covers. */
export type CoveredContent = Pick<
  EnrolmentRequestsTable,
  | "key_digest"
  | "wished_name"
  | "workspaces_json"
  | "labels_json"
  | "host_name"
  | "platform"
  | "agent_version"
  | "alias"
  | "profile"
  | "note"
>;

/** They by the names that people and programs know. */
const covered: Readonly<Record<string, keyof CoveredContent>> = {
  key: "key_digest",
  wishedName: "wished_name",
  workspaces: "workspaces_json",
  labels: "labels_json",
  hostName: "host_name",
  platform: "platform",
  version: "agent_version",
  alias: "alias",
  profile: "profile",
  note: "note",
};

/** What a machine says and its code gives, made harmless, as an approval covers it. */
export function toContent(
  request: PairingEnrolRequest,
  by: { readonly code: JoinCodesTable; readonly keyDigest: string },
): CoveredContent {
  const { code, keyDigest } = by;
  if (request.workspaces.length > maxWorkspaces) {
    throw new Fault("INVALID_ARGUMENT", `a machine can ask with ${maxWorkspaces} workspaces at most`, {
      details: { field: "workspaces", limit: maxWorkspaces, actual: request.workspaces.length },
    });
  }
  return {
    key_digest: keyDigest,
    wished_name: toReportedText(request.wishedAlias),
    workspaces_json: JSON.stringify([...new Set(request.workspaces.map(toReportedText))].toSorted()),
    labels_json: code.labels_json,
    host_name: toReportedText(request.hostName),
    platform: toReportedText(request.platform),
    agent_version: toReportedText(request.agentVersion),
    alias: code.alias,
    profile: code.profile,
    note: code.note,
  };
}

/** The names of what differs between two requests. */
export function changedFields(before: CoveredContent, after: CoveredContent): readonly string[] {
  return Object.entries(covered)
    .filter(([, column]) => before[column] !== after[column])
    .map(([name]) => name);
}

/** A row as the other rooms see it. */
export function toEnrolmentRequest(row: EnrolmentRequestsTable, connected: boolean): EnrolmentRequest {
  return {
    id: row.id,
    wishedName: row.wished_name,
    hostName: row.host_name,
    platform: row.platform,
    agentVersion: row.agent_version,
    key: row.key_digest,
    address: row.address,
    workspaces: readNames(row.workspaces_json),
    labels: readLabels(row.labels_json),
    profile: toProfile(row.profile),
    alias: row.alias,
    note: row.note,
    comparisonCode: row.comparison_code,
    askedAt: row.asked_at,
    seenAt: row.seen_at,
    expiresAt: row.expires_at,
    connected,
  };
}

function readNames(json: string): readonly string[] {
  const names: unknown = JSON.parse(json);
  return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
}
