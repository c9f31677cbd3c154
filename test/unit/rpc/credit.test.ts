import { expect, test } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { noDeadline } from "../../../shared/rpc/deadline.ts";
import { createBudget, type Budget } from "../../../shared/rpc/reverse/budget.ts";
import {
  createReceiveQueue,
  createSendCredit,
  firstCreditBytes,
  firstCreditOf,
  maxCreditBytes,
  mostCreditOf,
} from "../../../shared/rpc/reverse/credit.ts";

const mib = 1024 * 1024;

/** A sender and a receiver of one direction, back to back. */
function joined(budget: Budget, firstBytes = firstCreditBytes, mostBytes = maxCreditBytes) {
  const credit = createSendCredit(firstBytes);
  let windowBytes = firstBytes;
  const queue = createReceiveQueue({
    firstBytes,
    mostBytes,
    budget,
    grant: (bytes, window) => {
      windowBytes = window;
      credit.grant(bytes, window);
    },
  });
  return { credit, queue, window: () => windowBytes };
}

test("a sender whose reader stopped has at most its credit in flight", async () => {
  const { credit, queue } = joined(createBudget(64 * mib));
  let sent = 0;
  while (credit.take(64 * 1024) === undefined) {
    expect(queue.push(new Uint8Array(64 * 1024))).toBe(true);
    sent += 1;
  }
  expect(sent).toBe(3);
  expect(queue.heldBytes).toBeLessThanOrEqual(firstCreditBytes);
});

test("credit grows with use up to 8 MiB, is taken from the budget and given back at the end", async () => {
  const budget = createBudget(64 * mib);
  const { credit, queue, window } = joined(budget);
  const reader = queue[Symbol.asyncIterator]();
  for (let at = 0; at < 1000; at += 1) {
    const room = credit.take(64 * 1024);
    if (room) await room;
    queue.push(new Uint8Array(64 * 1024));
    await reader.next();
  }
  expect(window()).toBe(maxCreditBytes);
  expect(budget.takenBytes).toBe(maxCreditBytes);
  queue.close();
  await reader.next();
  expect(budget.takenBytes).toBe(0);
});

test("credit of a stream that stays open grows up to 1 MiB", async () => {
  const { credit, queue, window } = joined(
    createBudget(64 * mib),
    firstCreditOf(noDeadline),
    mostCreditOf(noDeadline),
  );
  const reader = queue[Symbol.asyncIterator]();
  for (let at = 0; at < 1000; at += 1) {
    const room = credit.take(8 * 1024);
    if (room) await room;
    queue.push(new Uint8Array(8 * 1024));
    await reader.next();
  }
  expect(window()).toBe(mib);
  expect([firstCreditOf(1), mostCreditOf(1)]).toEqual([firstCreditBytes, maxCreditBytes]);
});

test("calls of one link never take more than its budget beside their first credit", async () => {
  const gateway = createBudget(20 * mib);
  const link = createBudget(10 * mib, gateway);
  const calls = Array.from({ length: 5 }, () => joined(link));
  for (const { credit, queue } of calls) {
    const reader = queue[Symbol.asyncIterator]();
    for (let at = 0; at < 500; at += 1) {
      const room = credit.take(64 * 1024);
      if (room) await room;
      queue.push(new Uint8Array(64 * 1024));
      await reader.next();
    }
  }
  expect(link.takenBytes).toBeLessThanOrEqual(10 * mib);
  expect(gateway.takenBytes).toBe(link.takenBytes);
  for (const { window } of calls) expect(window()).toBeGreaterThanOrEqual(firstCreditBytes);
});

test("a message larger than the whole credit goes alone", async () => {
  const { credit, queue } = joined(createBudget(64 * mib), 16 * 1024);
  expect(credit.take(4 * mib)).toBeUndefined();
  expect(queue.push(new Uint8Array(4 * mib))).toBe(true);
  const second = credit.take(4 * mib);
  expect(second).toBeInstanceOf(Promise);
  const reader = queue[Symbol.asyncIterator]();
  await reader.next();
  const waiting = reader.next();
  await second;
  queue.push(new Uint8Array(1));
  expect((await waiting).done).toBe(false);
});

test("a sender that ignores its credit is seen", () => {
  const { queue } = joined(createBudget(64 * mib), 16 * 1024);
  expect(queue.push(new Uint8Array(10_000))).toBe(true);
  expect(queue.push(new Uint8Array(10_000))).toBe(false);
});

test("who waits for credit hears of the end, and a reader gets what is left before it", async () => {
  const { credit, queue } = joined(createBudget(64 * mib), 16 * 1024);
  expect(credit.take(10_000)).toBeUndefined();
  queue.push(new Uint8Array(10_000));
  const waiting = credit.take(10_000);
  const fault = new Fault("NODE_OFFLINE", "gone");
  credit.close(fault);
  queue.close(fault);
  await expect(waiting).rejects.toBe(fault);
  const reader = queue[Symbol.asyncIterator]();
  expect((await reader.next()).value).toHaveLength(10_000);
  await expect(reader.next()).rejects.toBe(fault);
});
