import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import { Metadata, status } from "@grpc/grpc-js";
import { expect, test } from "vitest";
import { faultCodes, faultRow } from "../../../shared/fault/codes.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { FaultSchema, type FaultCode as WireCode } from "../../../shared/gen/fairlead/v1/fault_pb.ts";
import { faultFromGrpc, fromWireFault, toGrpcStatus, toWireFault } from "../../../shared/rpc/fault-wire.ts";

test("every code travels as its own status and comes back whole", () => {
  for (const code of faultCodes) {
    const fault = new Fault(code, `about ${code}`, {
      hint: "do this",
      retryable: code.length % 2 === 0,
      details: { n: 1 },
    });
    const sent = toGrpcStatus(fault);
    expect(sent.code).toBe(status[faultRow(code).grpc]);
    const { message, hint, retryable, details } = fault;
    expect(faultFromGrpc(sent, "peer")).toMatchObject({ code, message, hint, retryable, details });
  }
});

test("a code that this version does not know is an internal fault", () => {
  const bytes = toBinary(FaultSchema, create(FaultSchema, { code: 9999 as WireCode, message: "new" }));
  expect(fromWireFault(fromBinary(FaultSchema, bytes))).toMatchObject({ code: "INTERNAL", message: "new" });
});

test("a fault too large for its trailer keeps its code and loses its details", () => {
  const wire = toWireFault(
    new Fault("CONFLICT", "x".repeat(100_000), { details: { much: "y".repeat(20_000) } }),
  );
  expect(toBinary(FaultSchema, wire).byteLength).toBeLessThan(16 * 1024);
  expect(fromWireFault(wire)).toMatchObject({ code: "CONFLICT", details: {} });
});

test("a foreign status becomes the nearest code", () => {
  const foreign = (code: status, details = "") =>
    faultFromGrpc({ code, details, metadata: new Metadata() }, "gateway");
  expect(foreign(status.UNAVAILABLE, "connect ECONNREFUSED 127.0.0.1:1")).toMatchObject({
    code: "GATEWAY_UNREACHABLE",
    retryable: true,
    details: { reason: "connection_refused", target: "gateway" },
  });
  expect(foreign(status.UNIMPLEMENTED).code).toBe("VERSION_UNSUPPORTED");
  expect(foreign(status.UNKNOWN).code).toBe("INTERNAL");
});

test("an error that is no fault says nothing of where it came from", () => {
  const error = new Error("at /root/secret/path.ts");
  const { details } = toGrpcStatus(error);
  expect(details).not.toContain("/root");
});
