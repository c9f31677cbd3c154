import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { createBroadcast, type Broadcast } from "../../../shared/flow/broadcast.ts";

interface Item {
  readonly key: string;
  readonly value: number;
}

const make = (limit = 10): Broadcast<Item> =>
  createBroadcast({ limit, keyOf: ({ key }) => key, onOverflow: () => ({ key: "again", value: 0 }) });

test("everyone who watches is told, from the moment they watch, what they begin with first", async () => {
  const broadcast = make();
  broadcast.tell({ key: "early", value: 0 });
  const stop = new AbortController();
  const { signal } = stop;
  const [one, two] = [
    broadcast.watch({ signal, first: () => [{ key: "b", value: 1 }] }),
    broadcast.watch({ signal }),
  ];
  expect((await one.next()).value).toEqual({ key: "b", value: 1 });
  const next = [one.next(), two.next()];
  broadcast.tell({ key: "a", value: 2 });
  for (const told of next) expect((await told).value).toEqual({ key: "a", value: 2 });
  stop.abort();
  expect(await one.next()).toEqual({ done: true, value: undefined });
  await two.return(undefined);
  expect(getEventListeners(signal, "abort")).toEqual([]);
});

test("a slow watcher has the newest of each key, and past the limit one item that says to look again", async () => {
  const broadcast = make(2);
  const { signal } = new AbortController();
  const watching = broadcast.watch({ signal });
  const begun = watching.next();
  broadcast.tell({ key: "first", value: 0 });
  await begun;
  for (const value of [1, 2, 3]) broadcast.tell({ key: "a", value });
  broadcast.tell({ key: "b", value: 4 });
  expect((await watching.next()).value).toEqual({ key: "a", value: 3 });
  expect((await watching.next()).value).toEqual({ key: "b", value: 4 });
  for (const key of ["a", "b", "c"]) broadcast.tell({ key, value: 5 });
  expect((await watching.next()).value).toEqual({ key: "again", value: 0 });
  broadcast.tell({ key: "last", value: 6 });
  broadcast.close();
  expect((await watching.next()).value).toEqual({ key: "last", value: 6 });
  expect((await watching.next()).done).toBe(true);
});
