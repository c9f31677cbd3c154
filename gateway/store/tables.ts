/**
 * The tables of the gateway's state, as every engine has them. Times are milliseconds since 1970, `…_json` columns hold
 * JSON, ids are text. What is secret is there only as a digest.
 */

/** A machine that was paired. Rows are never removed: a revoked identity stays known. */
export interface NodesTable {
  id: string;
  /** Unique among nodes that are not revoked. */
  alias: string;
  labels_json: string;
  /** `read`, `work` or `full`. */
  profile: string;
  /** Pin of its public key; unique, also among revoked ones. */
  key_digest: string;
  /** The join code it last enrolled with. */
  code_id: string;
  paired_at: number;
  certificate_expires_at: number;
  /** Pin of the authority that signed that certificate; empty: not known. */
  issuer_pin: string;
  /** Pins that the node said it trusts. */
  trusted_json: string;
  revoked_at: number | null;
  host_name: string;
  platform: string;
  agent_version: string;
  /** What an administrator wrote down about it. */
  note: string;
}

/** A join code, without its secret. */
export interface JoinCodesTable {
  id: string;
  /** SHA-256 of the secret, hex; unique. */
  secret_hash: string;
  purpose: string;
  /** The alias of the node; empty: none was named. */
  alias: string;
  labels_json: string;
  profile: string;
  uses: number;
  uses_left: number;
  created_at: number;
  expires_at: number;
  /** 1 when its machines wait for an administrator. */
  require_approval: number;
  /** What it was made for, in an administrator's words. */
  note: string;
}

/** A machine that asked to be admitted with a code that requires approval, as it was shown. */
export interface EnrolmentRequestsTable {
  id: string;
  /** Rises with each request; unique. */
  number: number;
  code_id: string;
  /** Pin of the machine's public key; unique among pending ones. */
  key_digest: string;
  /** `pending`, `approved`, `rejected`, `expired` or `superseded`. */
  state: string;
  /** Where it last asked from. */
  address: string;
  /** What counts as one address for the bounds. */
  source: string;
  wished_name: string;
  host_name: string;
  platform: string;
  agent_version: string;
  workspaces_json: string;
  /** The alias that its code names; empty: none. */
  alias: string;
  labels_json: string;
  profile: string;
  note: string;
  /** What both sides show, for people to compare. */
  comparison_code: string;
  asked_at: number;
  /** When it last asked. */
  seen_at: number;
  expires_at: number;
  closed_at: number | null;
  /** The request that took its place. */
  superseded_by: string | null;
  /** The node that it became. */
  node_id: string | null;
}

/** An API token, without its text. */
export interface TokensTable {
  id: string;
  /** SHA-256 of the text, hex; unique. */
  hash: string;
  session_id: string | null;
  agent: string;
  created_at: number;
  expires_at: number;
  revoked_at: number | null;
  /** The name of the role that it gives; empty when it opens sessions. */
  role: string;
  /** The name of the user that it acts for. */
  user_name: string;
  /** When it was last used, exact to a minute. */
  used_at: number | null;
}

/** Somebody who administers the gateway. */
export interface UsersTable {
  name: string;
  /** The name of their role: the most that their tokens give. */
  role: string;
  created_at: number;
}

/** A hosted session. */
export interface SessionsTable {
  id: string;
  agent: string;
  node_id: string | null;
  workspace: string | null;
  state: string;
  reason: string;
  /** Since when it is in that state. */
  since: number;
  opened_at: number;
  closed_at: number | null;
  /** Name of its skill snapshot. */
  snapshot: string | null;
  /** Digest of its tool surface. */
  surface: string | null;
}

/** Something that waits, or waited, for a person. */
export interface ApprovalsTable {
  id: string;
  state: string;
  title: string;
  detail: string;
  agent: string;
  session_id: string | null;
  node_id: string | null;
  rule: string;
  /** Digest of what the answer covers. */
  digest: string;
  asked_at: number;
  expires_at: number;
  decided_at: number | null;
  decided_by: string | null;
  /** Whether a standing grant may come of it: 0 or 1. */
  grantable: number;
  /** How long the grant is to hold that whoever allowed it wants to come of it, in milliseconds; null: none. */
  grant_ms: number | null;
}

/** What an agent may do with one path without being asked again. */
export interface GrantsTable {
  id: string;
  agent: string;
  /** The only session that has it; null: every session of the agent. */
  session_id: string | null;
  /** The only tool that it holds for; null: calls on files that come by no tool. */
  tool: string | null;
  node_id: string;
  workspace: string;
  kind: string;
  requested_path: string;
  canonical_path: string;
  created_at: number;
  expires_at: number;
  approval_id: string;
  granted_by: string;
}

/** Changes of files that are under way: each becomes a record when it ends. */
export interface FileChangesTable {
  id: string;
  /** The record as it is made when nobody can say how the change ended. */
  entry_json: string;
  begun_at: number;
}

/** Who holds a published name; the first claimant keeps it. Unique by kind and name. */
export interface NameAssignmentsTable {
  /** `skill` or `tool`. */
  kind: string;
  name: string;
  /** What the name stands for, as its feature writes it. */
  owner: string;
  node_id: string;
  assigned_at: number;
}

/** What a user last read of a file, so that a write without a condition is refused when it changed since. */
export interface FileReadsTable {
  user: string;
  node_id: string;
  workspace: string;
  path: string;
  digest: string;
  read_at: number;
}

/** The generation of a node's latest link; only ever rises. */
export interface LinkGenerationsTable {
  node_id: string;
  generation: number;
  /** The generation that the node's home knew when it was given this one; 0: none. */
  presented: number;
}

/** The last record of the audit chain; one row. */
export interface AuditHeadTable {
  /** Always 1. */
  id: number;
  sequence: number;
  hash: string;
}

/** Where a node stood when it last changed. */
export interface PresencesTable {
  node_id: string;
  state: string;
  reason: string;
  since: number;
  /** When it was last heard of; 0: never. */
  seen_at: number;
  generation: number;
  address: string;
  /** The last time that two processes came with its identity; null: never. */
  clone_json: string | null;
}

/** Audit records that are made and not yet in a file. */
export interface AuditPendingTable {
  sequence: number;
  hash: string;
  /** The record as its line of the file. */
  line: string;
}

/** The files of the audit record that there are. */
export interface AuditSegmentsTable {
  number: number;
  first_sequence: number;
  /** The hash of the record before its first. */
  first_previous: string;
  opened_at: number;
}

/** Single values by name. */
export interface SettingsTable {
  key: string;
  value_json: string;
  updated_at: number;
}

/** Which migrations were applied. */
export interface SchemaVersionsTable {
  version: number;
  applied_at: number;
}

/** All tables by name. */
export interface Tables {
  nodes: NodesTable;
  join_codes: JoinCodesTable;
  enrolment_requests: EnrolmentRequestsTable;
  tokens: TokensTable;
  users: UsersTable;
  sessions: SessionsTable;
  approvals: ApprovalsTable;
  grants: GrantsTable;
  file_changes: FileChangesTable;
  name_assignments: NameAssignmentsTable;
  file_reads: FileReadsTable;
  link_generations: LinkGenerationsTable;
  presences: PresencesTable;
  audit_head: AuditHeadTable;
  audit_pending: AuditPendingTable;
  audit_segments: AuditSegmentsTable;
  settings: SettingsTable;
  schema_versions: SchemaVersionsTable;
}
