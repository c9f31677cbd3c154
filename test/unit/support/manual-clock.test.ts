import { expect, test } from "vitest";
import { ManualClock } from "../../support/manual-clock.ts";

test("sleepers wake in the order of their times, each at its own", async () => {
  const clock = new ManualClock(1_000);
  const woken: string[] = [];
  const note = (name: string, ms: number): Promise<void> =>
    clock.sleep(ms).then(() => void woken.push(`${name} at ${clock.now()}`));
  const all = Promise.all([note("late", 50), note("early", 10)]);
  expect([clock.sleepers, clock.nextInMs]).toEqual([2, 10]);
  await clock.advance(9);
  expect(woken).toEqual([]);
  await clock.advance(100);
  await all;
  expect(woken).toEqual(["early at 1010", "late at 1050"]);
  expect([clock.now(), clock.sleepers, clock.nextInMs]).toEqual([1_109, 0, undefined]);
});

test("one that sleeps again within the span wakes again", async () => {
  const clock = new ManualClock(0);
  let beats = 0;
  const stop = new AbortController();
  const loop = (async () => {
    for (;;) {
      await clock.sleep(10, { signal: stop.signal });
      beats += 1;
    }
  })();
  await clock.advance(45);
  expect(beats).toBe(4);
  stop.abort(new Error("enough"));
  await expect(loop).rejects.toThrow("enough");
  expect(clock.sleepers).toBe(0);
});

test("an aborted signal refuses at once with its reason", async () => {
  const clock = new ManualClock();
  await expect(clock.sleep(1, { signal: AbortSignal.abort(new Error("over")) })).rejects.toThrow("over");
  expect(clock.sleepers).toBe(0);
});
