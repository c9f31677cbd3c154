import { expect, test } from "vitest";
import { gatewayDefaults } from "../../../gateway/config/gateway-settings.ts";
import { enrolmentLimits } from "../../../gateway/pairing/enrolments.ts";
import { createHeldCalls } from "../../../gateway/pairing/held-calls.ts";
import { createRefusedJoins } from "../../../gateway/pairing/refused-joins.ts";
import { sourceOf } from "../../../gateway/pairing/source-address.ts";
import { waitForApproval, type ApprovalWait } from "../../../node-agent/pairing/wait-for-approval.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { comparisonCode } from "../../../shared/identity/comparison-code.ts";
import { parsePin } from "../../../shared/identity/pin.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const gateway = parsePin("a".repeat(64));
const machine = parsePin("b".repeat(64));

test("as shipped, 1,000 machines wait in all, 20 from one address, each for 24 hours", () => {
  const shipped = { pendingRequests: 1_000, pendingRequestsPerAddress: 20, pendingRequestMs: 86_400_000 };
  expect(enrolmentLimits).toEqual(shipped);
  expect(gatewayDefaults.limits).toMatchObject(shipped);
});

test("a comparison code is short, plain to read, and another one for another key or request", () => {
  const codes = Array.from({ length: 1_000 }, (_, index) =>
    comparisonCode({ gateway, machine, requestId: String(index) }),
  );
  for (const code of codes) expect(code).toMatch(/^[0-9A-HJKMNP-TV-Z]{3}-[0-9A-HJKMNP-TV-Z]{3}$/);
  expect(new Set(codes).size).toBe(1_000);
  const swapped = comparisonCode({ gateway: machine, machine: gateway, requestId: "0" });
  expect(swapped).not.toBe(codes[0]);
  expect(comparisonCode({ gateway, machine, requestId: "0" })).toBe(codes[0]);
});

test("one machine is one source, however many ports and addresses of its network it uses", () => {
  expect(sourceOf("10.0.0.7:51234")).toEqual({ address: "10.0.0.7", source: "10.0.0.7" });
  expect(sourceOf("[::ffff:10.0.0.7]:1")).toEqual({ address: "10.0.0.7", source: "10.0.0.7" });
  const first = sourceOf("[2001:db8:0:1::5]:443");
  expect(first).toEqual({ address: "2001:db8:0:1::5", source: "2001:db8:0:1::/64" });
  expect(sourceOf("[2001:0DB8::1:aaaa:bbbb:cccc:dddd]:1").source).toBe(first.source);
  expect(sourceOf("[2001:db8:0:2::5]:443").source).not.toBe(first.source);
  expect(sourceOf("[::1]:9").source).toBe("0:0:0:0::/64");
});

test("refused joins are counted by address and reason, and the list has an end", () => {
  const clock = new ManualClock(1_000);
  const refused = createRefusedJoins(clock);
  const unknown = new Fault("JOIN_CODE_INVALID", "no", { details: { reason: "unknown" } });
  for (let index = 0; index < 1_500; index += 1) refused.count(`10.0.${index >> 8}.${index & 255}`, unknown);
  refused.count("10.0.5.219", unknown);
  refused.count("10.0.5.219", new Fault("VERSION_UNSUPPORTED", "old"));
  for (const code of ["ENROLMENT_PENDING", "CANCELLED", "INTERNAL"] as const)
    refused.count("10.0.5.219", new Fault(code, "no refusal"));
  const list = refused.list();
  expect(list).toHaveLength(1_000);
  expect(list.slice(0, 2)).toEqual([
    {
      address: "10.0.5.219",
      code: "VERSION_UNSUPPORTED",
      reason: "version_unsupported",
      count: 1,
      firstSeenAt: 1_000,
      lastSeenAt: 1_000,
    },
    expect.objectContaining({ address: "10.0.5.219", reason: "unknown", count: 2 }),
  ]);
});

test("a decision between the look and the wait is not missed, and a newer call takes the older one's place", async () => {
  const held = createHeldCalls(new ManualClock());
  const options = { timeoutMs: 1_000, signal: new AbortController().signal };
  const decidedMeanwhile = held.hold("a", {
    ...options,
    isOpen: async () => {
      held.end("a", "decided");
      return true;
    },
  });
  expect(await decidedMeanwhile).toBe("decided");
  expect(await held.hold("a", { ...options, isOpen: async () => false })).toBe("decided");
  expect(held.has("a")).toBe(false);
  const isOpen = async (): Promise<boolean> => true;
  const older = held.hold("b", { ...options, isOpen });
  const newer = held.hold("b", { ...options, isOpen });
  expect(await older).toBe("displaced");
  expect(held.has("b")).toBe(true);
  held.end("b", "gave_way");
  expect(await newer).toBe("gave_way");
  const leaving = new AbortController();
  const left = held.hold("c", { timeoutMs: 1_000, signal: leaving.signal, isOpen });
  leaving.abort(new Error("gone"));
  await expect(left).rejects.toThrow("gone");
  expect(held.has("c")).toBe(false);
});

/** A wait whose gateway answers from a list, and what it asked and told. */
function scripted(answers: (Fault | string)[]): {
  readonly clock: ManualClock;
  readonly asked: number[];
  readonly told: ApprovalWait[];
  readonly result: Promise<string>;
} {
  const clock = new ManualClock();
  const asked: number[] = [];
  const told: ApprovalWait[] = [];
  const result = waitForApproval<string>({
    ask: async (waitMs) => {
      asked.push(waitMs);
      if (waitMs > 0) await clock.sleep(waitMs);
      const answer = answers.shift();
      if (typeof answer === "string") return answer;
      throw answer ?? new Error("asked too often");
    },
    gateway,
    machine,
    clock,
    onWait: async (wait) => void told.push(wait),
    signal: undefined,
  });
  result.catch(() => undefined);
  return { clock, asked, told, result };
}

const pending = (requestId = "abcdef123456"): Fault =>
  new Fault("ENROLMENT_PENDING", "wait", { details: { requestId, askedAt: 5, expiresAt: 9 } });

test("a machine that waits asks once at once, then lets the gateway keep its calls, and tells changes only", async () => {
  const away = new Fault("GATEWAY_UNREACHABLE", "nobody there");
  const run = scripted([pending(), pending(), pending(), away, away, pending(), "admitted"]);
  await expect.poll(async () => (await run.clock.advance(5_000), run.asked.length)).toBe(7);
  await run.clock.advance(60_000);
  expect(await run.result).toBe("admitted");
  expect(run.asked).toEqual([0, 25_000, 25_000, 25_000, 25_000, 25_000, 25_000]);
  expect(run.told.map(({ fault }) => fault?.code)).toEqual([undefined, "GATEWAY_UNREACHABLE", undefined]);
  expect(run.told[0]).toEqual({
    requestId: "abcdef123456",
    comparisonCode: comparisonCode({ gateway, machine, requestId: "abcdef123456" }),
    command: "fairlead nodes approve abcdef123456",
    askedAt: 5,
    expiresAt: 9,
    fault: undefined,
  });
});

test("a gateway that is away before anybody waits ends the join; so does a rejection later", async () => {
  const away = new Fault("GATEWAY_UNREACHABLE", "nobody there");
  await expect(scripted([away]).result).rejects.toBe(away);
  const rejected = new Fault("ENROLMENT_REJECTED", "no");
  const run = scripted([pending(), rejected]);
  await expect.poll(async () => (await run.clock.advance(5_000), run.asked.length)).toBe(2);
  await run.clock.advance(30_000);
  await expect(run.result).rejects.toBe(rejected);
});

test("a request that gave way comes back no sooner than half a minute later", async () => {
  const gaveWay = new Fault("LIMIT_REACHED", "others", { retryable: true });
  const run = scripted([pending(), gaveWay, pending("fedcba654321"), "admitted"]);
  await expect.poll(() => run.asked.length).toBe(2);
  await run.clock.advance(25_000);
  await run.clock.advance(29_000);
  expect(run.asked).toHaveLength(2);
  await expect.poll(async () => (await run.clock.advance(5_000), run.asked.length)).toBe(4);
  await run.clock.advance(30_000);
  expect(await run.result).toBe("admitted");
  expect(run.told.at(-1)?.requestId).toBe("fedcba654321");
});

test("a gateway that names no request is not waited for", async () => {
  const run = scripted([new Fault("ENROLMENT_PENDING", "wait", { details: { requestId: "x; rm -rf" } })]);
  await expect(run.result).rejects.toMatchObject({ code: "INTERNAL" });
});
