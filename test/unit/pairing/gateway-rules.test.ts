import { expect, test } from "vitest";
import { checkProtocol } from "../../../gateway/pairing/check-protocol.ts";
import { parseLabels } from "../../../gateway/pairing/labels.ts";
import { nearestName } from "../../../gateway/pairing/nearest.ts";
import { toReportedText } from "../../../gateway/pairing/reported-text.ts";
import { createWrongSecrets } from "../../../gateway/pairing/wrong-secrets.ts";
import { isLoopbackHost, parseAddress } from "../../../shared/identity/address.ts";
import { isNodeId } from "../../../shared/identity/node-name.ts";
import { ManualClock } from "../../support/manual-clock.ts";

test("the highest version that both speak is chosen, and two windows that do not meet are a fault with both", () => {
  expect(checkProtocol({ min: 2, max: 3 }, { min: 1, max: 5 })).toBe(3);
  expect(checkProtocol({ min: 3, max: 3 }, { min: 3, max: 3 })).toBe(3);
  for (const theirs of [
    { min: 1, max: 2 },
    { min: 4, max: 9 },
    { min: 0, max: 0 },
  ]) {
    expect(() => checkProtocol({ min: 3, max: 3 }, theirs)).toThrow(
      expect.objectContaining({
        code: "VERSION_UNSUPPORTED",
        details: { expected: "3-3", actual: `${theirs.min}-${theirs.max}` },
      }),
    );
  }
});

test("labels are short plain words, and others are refused", () => {
  const good = { region: "eu", "team/role": "Build.1", empty: "", a: "x".repeat(63) };
  expect(parseLabels(good)).toEqual(good);
  const wrong = [{ "": "x" }, { A: "x" }, { a: "x y" }, { a: "-x" }, { a: "x".repeat(64) }, { "a=b": "x" }];
  for (const labels of wrong) {
    expect(() => parseLabels(labels as unknown as Record<string, string>)).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT", details: { field: "label" } }),
    );
  }
});

test("the nearest name is offered, and none when nothing is near", () => {
  expect(nearestName("devbx", ["build", "devbox", "dev"])).toBe("devbox");
  expect(nearestName("devbox", ["printer"])).toBeUndefined();
  expect(nearestName("x", [])).toBeUndefined();
});

test("what a machine says about itself is shown, cut and cannot steer a terminal", () => {
  expect(toReportedText("\u001b[31mred\u202e\n")).toBe(String.raw`\u{1b}[31mred\u{202e}\u{a}`);
  expect(toReportedText("x".repeat(10_000))).toHaveLength(200);
  expect([...toReportedText("😀".repeat(300))]).toHaveLength(200);
  expect(toReportedText("\ud800")).toBe(String.raw`\u{d800}`);
});

test("an address that sent a hundred wrong secrets waits for the rest of the minute, others do not", async () => {
  const clock = new ManualClock();
  const wrong = createWrongSecrets(clock);
  for (let count = 0; count < 100; count += 1) {
    wrong.check("10.0.0.1");
    wrong.count("10.0.0.1");
  }
  await clock.advance(20_000);
  expect(() => wrong.check("10.0.0.1")).toThrow(
    expect.objectContaining({
      code: "RATE_LIMITED",
      retryable: true,
      details: { retryAfterMs: 40_000, limit: 100, actual: 100 },
    }),
  );
  wrong.check("10.0.0.2");
  await clock.advance(40_000);
  wrong.check("10.0.0.1");
});

test("the counters of a hundred thousand addresses take no more room than those of ten thousand", () => {
  const wrong = createWrongSecrets(new ManualClock());
  for (let count = 0; count < 100; count += 1) wrong.count("first");
  for (let address = 0; address < 20_000; address += 1) wrong.count(`10.0.${address >> 8}.${address & 255}`);
  wrong.check("first");
});

test("addresses are read with their brackets, and loopback is told from the rest", () => {
  expect(parseAddress("[::1]:7443")).toEqual({ host: "::1", port: 7443 });
  expect(parseAddress("gateway.example:1")).toEqual({ host: "gateway.example", port: 1 });
  for (const text of [
    "",
    "host",
    ":1",
    "host:",
    "host:0",
    "host:65536",
    "::1:7443",
    "[host]:1",
    "a b:1",
    "host:01",
  ]) {
    expect(() => parseAddress(text)).toThrow(expect.objectContaining({ details: { field: "address" } }));
  }
  expect(["127.0.0.1", "127.9.9.9", "::1", "localhost"].every(isLoopbackHost)).toBe(true);
  expect(["10.0.0.1", "gateway.example", "::2", "localhost.example"].some(isLoopbackHost)).toBe(false);
});

test("an id is never an alias", () => {
  expect(isNodeId("0123456789abcdef0123")).toBe(true);
  expect(isNodeId("a123456789abcdef0123")).toBe(false);
});
