import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { createOutput } from "../../../shared/terminal/output.ts";
import { reportError } from "../../../shared/terminal/report-error.ts";

interface Written {
  readonly stream: Writable & { isTTY?: boolean };
  text(): string;
}

function createSink(isTTY = false): Written {
  const chunks: Buffer[] = [];
  const stream = new Writable({
    write: (chunk: Buffer, _, done) => {
      chunks.push(chunk);
      done();
    },
  });
  return { stream: Object.assign(stream, { isTTY }), text: () => Buffer.concat(chunks).toString("utf8") };
}

async function report(
  error: unknown,
  json = false,
): Promise<{ status: number; stdout: string; stderr: string }> {
  const [stdout, stderr] = [createSink(), createSink()];
  const output = createOutput({ stdout: stdout.stream, stderr: stderr.stream, json, noColor: true });
  const status = await reportError(output, error);
  return { status, stdout: stdout.text(), stderr: stderr.text() };
}

const offline = new Fault("NODE_OFFLINE", "devbox\u001b[2J is offline", {
  hint: "fairlead nodes show devbox",
  details: { node: "devbox" },
});

test("an error is one line with its code, then the hint, on standard error", async () => {
  expect(await report(offline)).toEqual({
    status: 5,
    stdout: "",
    stderr: "error: devbox\\x1b[2J is offline (NODE_OFFLINE)\nhint: fairlead nodes show devbox\n",
  });
});

test("with --json the error is an object on standard output", async () => {
  const { status, stdout, stderr } = await report(offline, true);
  expect(status).toBe(5);
  expect(stderr).toBe("");
  expect(JSON.parse(stdout)).toEqual({
    error: {
      code: "NODE_OFFLINE",
      message: "devbox\u001b[2J is offline",
      hint: "fairlead nodes show devbox",
      retryable: true,
      details: { node: "devbox" },
    },
  });
});

test("every kind of end has its status", async () => {
  const interrupted = new Fault("CANCELLED", "the command was interrupted", {
    details: { reason: "interrupted" },
  });
  expect(await report(interrupted)).toEqual({ status: 130, stdout: "", stderr: "" });
  expect((await report(new Fault("INVALID_ARGUMENT", "x"))).status).toBe(2);
  expect((await report(new Fault("POLICY_DENIED", "x"))).status).toBe(3);
  expect((await report(new Fault("APPROVAL_REQUIRED", "x"))).status).toBe(3);
  expect((await report(new Fault("NOT_FOUND", "x"))).status).toBe(4);
  expect((await report(new Fault("GATEWAY_UNREACHABLE", "x"))).status).toBe(5);
  expect((await report(new Fault("NOT_EMPTY", "x"))).status).toBe(6);
  expect((await report(new Fault("IDENTITY_EXPIRED", "x", { retryable: false }))).status).toBe(3);
  expect((await report(new Fault("IDENTITY_EXPIRED", "x", { retryable: true }))).status).toBe(1);
});

test("a defect is reported with a trace id, and its stack where there is no other log", async () => {
  const { status, stderr } = await report(new TypeError("x is not a function"));
  expect(status).toBe(1);
  expect(stderr).toMatch(/^error: an internal error happened \(trace [0-9a-f-]{36}\) \(INTERNAL\)\nhint: /);
  expect(stderr).toContain("TypeError: x is not a function");
});

test("a table has a head on a terminal, and is plain lines with tabs elsewhere; cells are escaped and cut", async () => {
  const view = {
    columns: ["NAME", "STATE"],
    rows: [
      ["dev\nbox", "online"],
      ["x".repeat(300), "offline"],
    ],
  };
  const plain = createSink();
  const piped = createOutput({
    stdout: plain.stream,
    stderr: createSink().stream,
    json: false,
    noColor: false,
  });
  await piped.result({}, () => view);
  expect(plain.text()).toBe(`dev\\nbox\tonline\n${"x".repeat(199)}…\toffline\n`);
  const terminal = createSink(true);
  const shown = createOutput({
    stdout: terminal.stream,
    stderr: createSink().stream,
    json: false,
    noColor: true,
  });
  await shown.result({}, () => view);
  expect(terminal.text().split("\n")[0]).toMatch(/^NAME +STATE$/);
  expect(terminal.text()).not.toContain("\u001b");
  await shown.result({}, () => ({ columns: ["NAME"], rows: [], empty: "nothing is there" }));
  expect(terminal.text()).toContain("nothing is there\n");
});
