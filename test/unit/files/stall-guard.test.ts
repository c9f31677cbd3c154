import { expect, test } from "vitest";
import { approvalLimits } from "../../../gateway/approvals/approvals.ts";
import { stallMs, startStallGuard } from "../../../gateway/cli/files/stall-guard.ts";
import { ManualClock } from "../../support/manual-clock.ts";

const second = 1_000;

test("a transfer that waits for a person may stand still for as long as a person is waited for", async () => {
  const clock = new ManualClock();
  await using guard = startStallGuard(clock, new AbortController().signal);
  const taken = guard.pause();
  await clock.advance(approvalLimits.maxWaitMs + second);
  expect(guard.signal.aborted).toBe(false);
  // Its time begins once the call was taken on, and being told twice changes nothing.
  taken();
  taken();
  await clock.advance(stallMs - second);
  expect(guard.signal.aborted).toBe(false);
  await clock.advance(2 * second);
  expect(guard.signal.reason).toMatchObject({
    code: "DEADLINE_EXCEEDED",
    message: "no byte moved for 60 s",
  });
});

test("what moves keeps a transfer alive, and one that is never taken on ends too", async () => {
  const clock = new ManualClock();
  await using moving = startStallGuard(clock, new AbortController().signal);
  for (let minutes = 0; minutes < 5; minutes += 1) {
    await clock.advance(stallMs - second);
    moving.moved();
  }
  expect(moving.signal.aborted).toBe(false);
  moving.pause();
  await clock.advance(12 * 60 * second);
  expect(moving.signal.reason).toMatchObject({ message: "no byte moved for 660 s" });
});
