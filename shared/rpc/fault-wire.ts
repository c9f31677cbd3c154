import { create, fromBinary, toBinary, type JsonObject } from "@bufbuild/protobuf";
import { Metadata, status as grpcStatus, type StatusObject } from "@grpc/grpc-js";
import { faultRow, isFaultCode, type FaultCode } from "../fault/codes.ts";
import { faultFromError } from "../fault/fault-from-error.ts";
import { Fault, type FaultDetails } from "../fault/fault.ts";
import { FaultCode as WireCode, FaultSchema, type Fault as WireFault } from "../gen/fairlead/v1/fault_pb.ts";

const detailsKey = "grpc-status-details-bin";

/** Trailers have room for about 64 KiB; a fault that is larger loses its details, never its code. */
const maxFaultBytes = 16 * 1024;
const maxTextCharacters = 2048;

const codeByNumber = new Map<number, FaultCode>();
for (const [name, number] of Object.entries(WireCode)) {
  if (typeof number === "number" && isFaultCode(name)) codeByNumber.set(number, name);
}

/** A fault as the message that travels. Its cause stays here. */
export function toWireFault(fault: Fault): WireFault {
  const message = create(FaultSchema, {
    code: WireCode[fault.code],
    message: cut(fault.message),
    hint: cut(fault.hint ?? ""),
    retryable: fault.retryable,
  });
  if (Object.keys(fault.details).length > 0) {
    // Details are plain JSON by their type; the generated type only lacks the readonly marks.
    const whole = create(FaultSchema, { ...message, details: fault.details as JsonObject });
    if (toBinary(FaultSchema, whole).byteLength <= maxFaultBytes) return whole;
  }
  return message;
}

function cut(text: string): string {
  return text.length <= maxTextCharacters ? text : `${text.slice(0, maxTextCharacters - 1)}…`;
}

/** The fault that a message carries; a code this version does not know is read as `INTERNAL`. */
export function fromWireFault(message: WireFault): Fault {
  const code = codeByNumber.get(message.code) ?? "INTERNAL";
  return new Fault(code, message.message, {
    ...(message.hint === "" ? {} : { hint: message.hint }),
    retryable: message.retryable,
    details: (message.details ?? {}) as FaultDetails,
  });
}

/** The gRPC status of an error: that of its fault, which stands in the trailing `grpc-status-details-bin`. */
export function toGrpcStatus(error: unknown): StatusObject {
  const fault = faultFromError(error);
  const metadata = new Metadata();
  metadata.set(detailsKey, Buffer.from(toBinary(FaultSchema, toWireFault(fault))));
  return { code: grpcStatus[faultRow(fault.code).grpc], details: cut(fault.message), metadata };
}

const codeByStatus: Readonly<Partial<Record<grpcStatus, FaultCode>>> = {
  [grpcStatus.CANCELLED]: "CANCELLED",
  [grpcStatus.INVALID_ARGUMENT]: "INVALID_ARGUMENT",
  [grpcStatus.OUT_OF_RANGE]: "INVALID_ARGUMENT",
  [grpcStatus.DEADLINE_EXCEEDED]: "DEADLINE_EXCEEDED",
  [grpcStatus.NOT_FOUND]: "NOT_FOUND",
  [grpcStatus.ALREADY_EXISTS]: "ALREADY_EXISTS",
  [grpcStatus.PERMISSION_DENIED]: "POLICY_DENIED",
  [grpcStatus.UNAUTHENTICATED]: "UNAUTHENTICATED",
  [grpcStatus.RESOURCE_EXHAUSTED]: "LIMIT_REACHED",
  [grpcStatus.UNIMPLEMENTED]: "VERSION_UNSUPPORTED",
  [grpcStatus.UNAVAILABLE]: "GATEWAY_UNREACHABLE",
  [grpcStatus.DATA_LOSS]: "INTEGRITY_FAILURE",
};

/** What a gRPC client learns of a failed call. */
export interface GrpcFailure {
  readonly code: grpcStatus;
  readonly details: string;
  readonly metadata?: Metadata | null;
}

/** Whether an error of grpc-js says how a call ended. */
export function isGrpcFailure(error: unknown): error is GrpcFailure & Error {
  return (
    error instanceof Error &&
    "code" in error &&
    typeof error.code === "number" &&
    "details" in error &&
    typeof error.details === "string"
  );
}

/**
 * The fault of a failed gRPC call: the one that came with the status, else the code nearest to a foreign status
 * (`GATEWAY_UNREACHABLE` for `UNAVAILABLE`). `target` names the peer in the message.
 */
export function faultFromGrpc(failure: GrpcFailure, target: string): Fault {
  const [carried] = failure.metadata?.get(detailsKey) ?? [];
  if (Buffer.isBuffer(carried)) {
    try {
      return fromWireFault(fromBinary(FaultSchema, carried));
    } catch {
      // Another program's details: the status alone decides.
    }
  }
  const code = codeByStatus[failure.code] ?? "INTERNAL";
  if (code === "GATEWAY_UNREACHABLE") return unreachableFault(target, failure.details);
  if (code === "DEADLINE_EXCEEDED") return new Fault(code, "the call was not answered in its time");
  return new Fault(code, `${target} answered ${grpcStatus[failure.code]}: ${cut(failure.details)}`);
}

const reasonByErrno: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connection_refused",
  ENOENT: "not_running",
  ENOTFOUND: "unknown_host",
  EAI_AGAIN: "unknown_host",
  ETIMEDOUT: "connect_timeout",
  EHOSTUNREACH: "no_route",
  ENETUNREACH: "no_route",
  ECONNRESET: "connection_lost",
  EACCES: "permission",
};

/** `GATEWAY_UNREACHABLE` with the reason that the text of a network error gives. */
export function unreachableFault(target: string, text: string): Fault {
  const errno = /\bE[A-Z_]{3,}\b/.exec(text)?.[0];
  const reason = (errno === undefined ? undefined : reasonByErrno[errno]) ?? "connection_lost";
  return new Fault("GATEWAY_UNREACHABLE", `${target} could not be reached (${reason.replaceAll("_", " ")})`, {
    details: { reason, target },
    cause: new Error(text),
  });
}
