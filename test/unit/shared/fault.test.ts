import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  exitStatus,
  faultCodes,
  faultRow,
  faultTable,
  httpStatus,
  isFaultCode,
} from "../../../shared/fault/codes.ts";
import { faultFromErrno } from "../../../shared/fault/fault-from-errno.ts";
import { faultFromError } from "../../../shared/fault/fault-from-error.ts";
import {
  Fault,
  findFault,
  isFault,
  isWorkspaceUnavailable,
  toFaultJson,
} from "../../../shared/fault/fault.ts";
import { FaultCode as WireCode } from "../../../shared/gen/fairlead/v1/fault_pb.ts";

describe("the fault table", () => {
  test("has exactly the codes of fault.proto", () => {
    const onTheWire = Object.keys(WireCode).filter((name) => name !== "UNSPECIFIED");
    expect([...onTheWire].toSorted()).toEqual([...faultCodes].toSorted());
    expect(Object.keys(faultTable)).toEqual([...faultCodes]);
  });

  test("gives the exit statuses of the command line", () => {
    const expected: Record<string, number> = {
      INVALID_ARGUMENT: 2,
      PATH_INVALID: 2,
      POLICY_DENIED: 3,
      SYMLINK_REFUSED: 3,
      APPROVAL_REQUIRED: 3,
      ENROLMENT_PENDING: 3,
      IDENTITY_REVOKED: 3,
      IDENTITY_UNKNOWN: 3,
      NOT_FOUND: 4,
      NODE_OFFLINE: 5,
      GATEWAY_UNREACHABLE: 5,
      WORKSPACE_ACCESS_UNAVAILABLE: 5,
      ALREADY_EXISTS: 6,
      CONFLICT: 6,
      PATH_CHANGED: 6,
      NOT_EMPTY: 6,
      JOIN_CODE_INVALID: 1,
      PIN_MISMATCH: 1,
      INTEGRITY_FAILURE: 1,
      DEADLINE_EXCEEDED: 1,
      TOO_LARGE: 1,
      INTERNAL: 1,
    };
    for (const [code, exit] of Object.entries(expected)) {
      if (!isFaultCode(code)) throw new Error(`not a code: ${code}`);
      expect.soft(exitStatus(code), code).toBe(exit);
    }
    expect(exitStatus("IDENTITY_EXPIRED", true)).toBe(1);
    expect(exitStatus("IDENTITY_EXPIRED", false)).toBe(3);
  });

  test("gives the HTTP statuses", () => {
    expect(httpStatus("UNAUTHENTICATED")).toBe(401);
    expect(httpStatus("POLICY_DENIED")).toBe(403);
    expect(httpStatus("CONFLICT")).toBe(409);
    expect(httpStatus("TOO_LARGE")).toBe(413);
    expect(httpStatus("LIMIT_REACHED")).toBe(429);
    expect(httpStatus("INSTALL_UNSUPPORTED")).toBe(501);
    expect(httpStatus("INTEGRITY_FAILURE")).toBe(500);
  });

  test("says that only what can be helped by a repeat is retryable", () => {
    const retryable = faultCodes.filter((code) => faultRow(code).retryable);
    expect(retryable).toEqual([
      "PATH_CHANGED",
      "ENROLMENT_PENDING",
      "WORKSPACE_ACCESS_UNAVAILABLE",
      "NODE_OFFLINE",
      "GATEWAY_UNREACHABLE",
      "RATE_LIMITED",
      "INTEGRITY_FAILURE",
    ]);
  });

  test("stands in fault.proto with a comment a code", () => {
    const text = readFileSync(new URL("../../../proto/fairlead/v1/fault.proto", import.meta.url), "utf8");
    for (const code of faultCodes) expect(text).toContain(`FAULT_CODE_${code} = `);
  });
});

describe("a fault", () => {
  test("is found through wrapped causes by its class and code, not by its text", () => {
    const fault = new Fault("WORKSPACE_ACCESS_UNAVAILABLE", "devbox:/app is stopped");
    let wrapped: unknown = fault;
    for (let depth = 0; depth < 5; depth += 1) wrapped = new Error("outer", { cause: wrapped });
    expect(isWorkspaceUnavailable(wrapped)).toBe(true);
    expect(isWorkspaceUnavailable(new Error(fault.message))).toBe(false);
    expect(findFault(wrapped, "NOT_FOUND")).toBeUndefined();
    expect(isFault(wrapped)).toBe(false);
  });

  test("keeps code, message and retry advice when details are added", () => {
    const fault = new Fault("CONFLICT", "a.txt has changed", { details: { expected: "a" }, retryable: true });
    const more = fault.with({ details: { actual: "b" }, hint: "read it again" });
    expect(toFaultJson(more)).toEqual({
      code: "CONFLICT",
      message: "a.txt has changed",
      hint: "read it again",
      retryable: true,
      details: { expected: "a", actual: "b" },
    });
  });

  test("made of an unknown error says nothing of it but a trace id", () => {
    const fault = faultFromError(new TypeError("secret at /root/x"));
    expect(fault.code).toBe("INTERNAL");
    expect(fault.details).toMatchObject({ traceId: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    expect(fault.message).toContain(JSON.stringify(fault.details["traceId"]).slice(1, -1));
    expect(JSON.stringify(toFaultJson(fault))).not.toContain("secret");
  });

  test("made of an abort is a cancellation, of a time-out a deadline", () => {
    const aborted = new AbortController();
    aborted.abort();
    expect(faultFromError(aborted.signal.reason).code).toBe("CANCELLED");
    expect(faultFromError(new DOMException("late", "TimeoutError")).code).toBe("DEADLINE_EXCEEDED");
  });

  test("made of an errno names the thing as the user knows it", () => {
    const error = Object.assign(new Error("ENOSPC: no space left on device, write '/proc/self/fd/9/x'"), {
      code: "ENOSPC",
    });
    const fault = faultFromErrno(error, "notes/a.md");
    expect(fault).toBeInstanceOf(Fault);
    expect(fault).toMatchObject({ code: "DISK_FULL", details: { errno: "ENOSPC", path: "notes/a.md" } });
    expect(String(fault)).not.toContain("/proc");
    const other = new Error("no errno");
    expect(faultFromErrno(other, "x")).toBe(other);
  });
});
