import { describe, expect, test } from "vitest";
import { createCoalescingQueue, createQueue } from "../../../shared/flow/queue.ts";
import { readToLimit } from "../../../shared/flow/read-to-limit.ts";

describe("a queue whose writer waits", () => {
  test("never holds more than its limit and keeps the order", async () => {
    const queue = createQueue<number>(3);
    let most = 0;
    const writing = (async () => {
      for (let item = 0; item < 100; item += 1) {
        await queue.push(item);
        most = Math.max(most, queue.size);
      }
      queue.close();
    })();
    const read: number[] = [];
    for await (const item of queue) read.push(item);
    await writing;
    expect(read).toEqual(Array.from({ length: 100 }, (_, index) => index));
    expect(most).toBeLessThanOrEqual(3);
  });

  test("lets its writer go when the reader leaves", async () => {
    const queue = createQueue<number>(1);
    await queue.push(1);
    const second = queue.push(2);
    for await (const item of queue) {
      expect(item).toBe(1);
      break;
    }
    await second.catch(() => undefined);
    await expect(queue.push(3)).rejects.toMatchObject({ code: "CANCELLED" });
    expect(queue.size).toBe(0);
  });

  test("gives what it holds before the error it was closed with", async () => {
    const queue = createQueue<number>(5);
    await queue.push(1);
    queue.close(new Error("broken"));
    const reader = queue[Symbol.asyncIterator]();
    expect(await reader.next()).toEqual({ done: false, value: 1 });
    await expect(reader.next()).rejects.toThrow("broken");
  });
});

describe("a queue that coalesces", () => {
  test("keeps the newest of each key, and one word to start again past its limit", async () => {
    const queue = createCoalescingQueue<{ key: string; value: number }>({
      limit: 3,
      keyOf: (item) => item.key,
      onOverflow: () => ({ key: "gap", value: 0 }),
    });
    await queue.push({ key: "a", value: 1 });
    await queue.push({ key: "b", value: 1 });
    await queue.push({ key: "a", value: 2 });
    expect(queue.size).toBe(2);
    await queue.push({ key: "c", value: 1 });
    await queue.push({ key: "d", value: 1 });
    queue.close();
    const read = [];
    for await (const item of queue) read.push(item);
    expect(read).toEqual([{ key: "gap", value: 0 }]);
  });
});

describe("reading to a limit", () => {
  async function* chunks(...sizes: number[]): AsyncGenerator<Uint8Array> {
    for (const size of sizes) yield new Uint8Array(size);
  }

  test("takes exactly the limit and refuses one byte more", async () => {
    expect((await readToLimit(chunks(4, 4), 8)).byteLength).toBe(8);
    await expect(readToLimit(chunks(4, 5), 8)).rejects.toMatchObject({
      code: "TOO_LARGE",
      details: { limit: 8, actual: 9 },
    });
  });
});
