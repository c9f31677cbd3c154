import { describe, expect, test } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { createBackoff } from "../../../shared/lifetime/backoff.ts";
import { raceSignal, startDeadline, systemClock } from "../../../shared/lifetime/clock.ts";
import { Lease } from "../../../shared/lifetime/lease.ts";
import { Scope } from "../../../shared/lifetime/scope.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const untilAborted = (signal: AbortSignal): Promise<void> =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));

describe("a scope", () => {
  test("ends what it owns in reverse order, after its tasks", async () => {
    const order: string[] = [];
    const scope = new Scope("test");
    scope.defer(() => void order.push("first"));
    scope.defer(() => void order.push("second"));
    scope.spawn("task", async (signal) => {
      await untilAborted(signal).catch(() => undefined);
      order.push("task");
    });
    await scope.end("over");
    expect(order).toEqual(["task", "second", "first"]);
    expect(await scope.closed).toBe("over");
  });

  test("ends with the failure of a task, and the first reason wins", async () => {
    const scope = new Scope("test");
    scope.spawn("bad", async () => {
      await Promise.resolve();
      throw new Fault("IO_ERROR", "broken");
    });
    const reason = await scope.closed;
    await scope.end("later");
    expect(reason).toMatchObject({ code: "IO_ERROR" });
    expect(scope.signal.reason).toBe(reason);
  });

  test("ends with its parent and leaves no listener there", async () => {
    const parent = new AbortController();
    const scope = new Scope("child", parent.signal);
    parent.abort("parent over");
    expect(await scope.closed).toBe("parent over");
    const late = new Scope("late", parent.signal);
    expect(await late.closed).toBe("parent over");
  });

  test("starts nothing after its end", async () => {
    const scope = new Scope("test");
    await scope.end();
    let ran = false;
    scope.spawn("task", async () => {
      ran = true;
    });
    await Promise.resolve();
    expect(ran).toBe(false);
  });
});

describe("a lease", () => {
  test("is checked before and after each wait", async () => {
    const lease = new Lease({ what: "workspace devbox:/app", epoch: 1 });
    expect(await lease.during(async () => 7)).toBe(7);
    const late = lease.during(async () => {
      lease.end("revoked");
      return 8;
    });
    await expect(late).rejects.toMatchObject({ code: "LEASE_ENDED", details: { reason: "revoked" } });
    await expect(lease.during(async () => 9)).rejects.toMatchObject({ code: "LEASE_ENDED" });
  });

  test("keeps the first reason of its end", () => {
    const lease = new Lease({ what: "x", epoch: 1, ended: (reason) => new Fault("CANCELLED", reason) });
    lease.end("first");
    lease.end("second");
    expect(lease.signal.reason).toMatchObject({ message: "first" });
  });
});

describe("time", () => {
  test("a sleep ends at once with its signal's reason and takes its listener away", async () => {
    const controller = new AbortController();
    const sleeping = systemClock.sleep(60_000, { signal: controller.signal });
    controller.abort(new Fault("CANCELLED", "enough"));
    await expect(sleeping).rejects.toMatchObject({ message: "enough" });
    await expect(systemClock.sleep(1, { signal: controller.signal })).rejects.toMatchObject({
      message: "enough",
    });
  });

  test("a deadline aborts with its fault, or not at all once it was given back", async () => {
    using kept = startDeadline({ timeoutMs: 5 });
    await expect(raceSignal(new Promise(() => undefined), kept.signal)).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
    });
    const clock = new ManualClock();
    const back = startDeadline({ timeoutMs: 5, clock });
    back[Symbol.dispose]();
    await clock.advance(20);
    expect(back.signal.aborted).toBe(false);
  });

  test("a backoff keeps full jitter below its ceiling after any number of attempts", () => {
    const waits = createBackoff({ firstMs: 200, maxMs: 30_000, random: () => 0.999 });
    const ceilings = Array.from({ length: 10 }, () => Math.ceil(waits.next()));
    expect(ceilings.slice(0, 4)).toEqual([200, 400, 800, 1599]);
    for (let attempt = 0; attempt < 2_000; attempt += 1) expect(waits.next()).toBeLessThanOrEqual(30_000);
    waits.reset();
    expect(waits.next()).toBeLessThanOrEqual(200);
  });
});
