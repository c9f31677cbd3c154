/**
 * The one table of faults. gRPC status, retry advice, exit status and HTTP status all come from it,
 * and a test compares it with `fault.proto`.
 */

/** The gRPC status names that a fault can travel as. */
export type GrpcStatusName =
  | "CANCELLED"
  | "UNKNOWN"
  | "INVALID_ARGUMENT"
  | "DEADLINE_EXCEEDED"
  | "NOT_FOUND"
  | "ALREADY_EXISTS"
  | "PERMISSION_DENIED"
  | "RESOURCE_EXHAUSTED"
  | "FAILED_PRECONDITION"
  | "ABORTED"
  | "UNIMPLEMENTED"
  | "INTERNAL"
  | "UNAVAILABLE"
  | "DATA_LOSS"
  | "UNAUTHENTICATED";

/** Whose move it is when a fault is met. */
export type FaultBlame = "caller" | "policy" | "node" | "gateway";

/** One row of the table: how the code travels and whether repeating can help. */
export interface FaultRow {
  /** The status the fault travels as over gRPC. */
  readonly grpc: GrpcStatusName;
  /** Whether a repeat can help when nothing else is said. */
  readonly retryable: boolean;
  /** Whose move it is. */
  readonly blame: FaultBlame;
  /** Exit status when it differs from that of the gRPC status. */
  readonly exit?: number;
  /** HTTP status when it differs from that of the gRPC status. */
  readonly http?: number;
}

const row = (grpc: GrpcStatusName, blame: FaultBlame, more: Partial<FaultRow> = {}): FaultRow => ({
  grpc,
  blame,
  retryable: false,
  ...more,
});

/** The codes, in the order of the manual. */
export const faultCodes = [
  "INVALID_ARGUMENT",
  "PATH_INVALID",
  "NOT_FOUND",
  "NOT_A_FILE",
  "NOT_A_DIRECTORY",
  "UNSUPPORTED_FILE_TYPE",
  "SYMLINK_REFUSED",
  "HARDLINK_REFUSED",
  "PATH_ESCAPES",
  "PATH_CHANGED",
  "POLICY_DENIED",
  "APPROVAL_REQUIRED",
  "APPROVAL_DENIED",
  "APPROVAL_EXPIRED",
  "UNAUTHENTICATED",
  "ENROLMENT_PENDING",
  "ENROLMENT_REJECTED",
  "JOIN_CODE_INVALID",
  "IDENTITY_REVOKED",
  "IDENTITY_EXPIRED",
  "IDENTITY_UNKNOWN",
  "PIN_MISMATCH",
  "ALREADY_EXISTS",
  "CONFLICT",
  "NOT_EMPTY",
  "WORKSPACE_ACCESS_UNAVAILABLE",
  "NODE_OFFLINE",
  "GATEWAY_UNREACHABLE",
  "OUTCOME_UNKNOWN",
  "DEADLINE_EXCEEDED",
  "CANCELLED",
  "TOO_LARGE",
  "LIMIT_REACHED",
  "RATE_LIMITED",
  "INTEGRITY_FAILURE",
  "DISK_FULL",
  "IO_ERROR",
  "VERSION_UNSUPPORTED",
  "TOOL_FAILED",
  "TOOL_NOT_EXPOSED",
  "INSTALL_FAILED",
  "INSTALL_REFUSED",
  "INSTALL_UNSUPPORTED",
  "LEASE_ENDED",
  "INTERNAL",
] as const;

/** A fault code: the words clients branch on. */
export type FaultCode = (typeof faultCodes)[number];

/** Every fault code with its row. */
export const faultTable: Readonly<Record<FaultCode, FaultRow>> = {
  INVALID_ARGUMENT: row("INVALID_ARGUMENT", "caller"),
  PATH_INVALID: row("INVALID_ARGUMENT", "caller"),
  NOT_FOUND: row("NOT_FOUND", "caller"),
  NOT_A_FILE: row("FAILED_PRECONDITION", "caller"),
  NOT_A_DIRECTORY: row("FAILED_PRECONDITION", "caller"),
  UNSUPPORTED_FILE_TYPE: row("FAILED_PRECONDITION", "caller"),
  SYMLINK_REFUSED: row("PERMISSION_DENIED", "policy"),
  HARDLINK_REFUSED: row("PERMISSION_DENIED", "policy"),
  PATH_ESCAPES: row("PERMISSION_DENIED", "policy"),
  PATH_CHANGED: row("ABORTED", "node", { retryable: true }),
  POLICY_DENIED: row("PERMISSION_DENIED", "policy"),
  APPROVAL_REQUIRED: row("FAILED_PRECONDITION", "policy", { exit: 3 }),
  APPROVAL_DENIED: row("PERMISSION_DENIED", "policy"),
  APPROVAL_EXPIRED: row("PERMISSION_DENIED", "policy"),
  UNAUTHENTICATED: row("UNAUTHENTICATED", "caller"),
  ENROLMENT_PENDING: row("UNAUTHENTICATED", "policy", { retryable: true, exit: 3 }),
  ENROLMENT_REJECTED: row("UNAUTHENTICATED", "policy", { exit: 3 }),
  JOIN_CODE_INVALID: row("UNAUTHENTICATED", "caller"),
  IDENTITY_REVOKED: row("UNAUTHENTICATED", "policy", { exit: 3 }),
  IDENTITY_EXPIRED: row("UNAUTHENTICATED", "caller"),
  IDENTITY_UNKNOWN: row("UNAUTHENTICATED", "caller", { exit: 3 }),
  PIN_MISMATCH: row("UNAUTHENTICATED", "caller"),
  ALREADY_EXISTS: row("ALREADY_EXISTS", "caller"),
  CONFLICT: row("ABORTED", "caller"),
  NOT_EMPTY: row("FAILED_PRECONDITION", "caller", { exit: 6 }),
  WORKSPACE_ACCESS_UNAVAILABLE: row("UNAVAILABLE", "node", { retryable: true }),
  NODE_OFFLINE: row("UNAVAILABLE", "node", { retryable: true }),
  GATEWAY_UNREACHABLE: row("UNAVAILABLE", "gateway", { retryable: true }),
  OUTCOME_UNKNOWN: row("UNKNOWN", "node"),
  DEADLINE_EXCEEDED: row("DEADLINE_EXCEEDED", "caller"),
  CANCELLED: row("CANCELLED", "caller"),
  TOO_LARGE: row("RESOURCE_EXHAUSTED", "caller", { http: 413 }),
  LIMIT_REACHED: row("RESOURCE_EXHAUSTED", "caller"),
  RATE_LIMITED: row("RESOURCE_EXHAUSTED", "caller", { retryable: true }),
  INTEGRITY_FAILURE: row("DATA_LOSS", "node", { retryable: true }),
  DISK_FULL: row("RESOURCE_EXHAUSTED", "node"),
  IO_ERROR: row("INTERNAL", "node"),
  VERSION_UNSUPPORTED: row("FAILED_PRECONDITION", "caller"),
  TOOL_FAILED: row("INTERNAL", "node"),
  TOOL_NOT_EXPOSED: row("FAILED_PRECONDITION", "policy"),
  INSTALL_FAILED: row("INTERNAL", "node"),
  INSTALL_REFUSED: row("PERMISSION_DENIED", "policy"),
  INSTALL_UNSUPPORTED: row("UNIMPLEMENTED", "node"),
  LEASE_ENDED: row("FAILED_PRECONDITION", "caller"),
  INTERNAL: row("INTERNAL", "gateway"),
};

const exitByStatus: Partial<Record<GrpcStatusName, number>> = {
  INVALID_ARGUMENT: 2,
  PERMISSION_DENIED: 3,
  NOT_FOUND: 4,
  UNAVAILABLE: 5,
  ABORTED: 6,
  ALREADY_EXISTS: 6,
};

const httpByStatus: Partial<Record<GrpcStatusName, number>> = {
  INVALID_ARGUMENT: 400,
  PERMISSION_DENIED: 403,
  NOT_FOUND: 404,
  UNAVAILABLE: 503,
  ABORTED: 409,
  ALREADY_EXISTS: 409,
  UNAUTHENTICATED: 401,
  FAILED_PRECONDITION: 409,
  RESOURCE_EXHAUSTED: 429,
  UNIMPLEMENTED: 501,
  DEADLINE_EXCEEDED: 504,
};

/** Whether `text` is a code of the table. */
export function isFaultCode(text: string): text is FaultCode {
  return Object.hasOwn(faultTable, text);
}

/** The table's row of `code`. */
export function faultRow(code: FaultCode): FaultRow {
  return faultTable[code];
}

/** The command line's exit status for `code`; an `IDENTITY_EXPIRED` that cannot be repeated is a refusal (3). */
export function exitStatus(code: FaultCode, retryable = false): number {
  if (code === "IDENTITY_EXPIRED") return retryable ? 1 : 3;
  const { exit, grpc } = faultRow(code);
  return exit ?? exitByStatus[grpc] ?? 1;
}

/** The HTTP status for `code`. */
export function httpStatus(code: FaultCode): number {
  const { http, grpc } = faultRow(code);
  return http ?? httpByStatus[grpc] ?? 500;
}
