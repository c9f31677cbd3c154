import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { expect, test } from "vitest";
import { createNewcomers } from "../../../shared/rpc/newcomers.ts";

/** Lets connections of loopback in, and tells by their first word who was. */
async function startDoor(staleMs?: number) {
  const said: string[] = [];
  const sockets = new Set<Socket>();
  const newcomers = createNewcomers((socket) => void said.push(String(socket.read())), staleMs);
  let takenCount = 0;
  const server = createServer((socket) => {
    takenCount += 1;
    sockets.add(socket);
    socket.on("error", () => undefined);
    newcomers(socket);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const bound = server.address();
  const port = typeof bound === "object" && bound ? bound.port : 0;
  return {
    said,
    taken: () => takenCount,
    open: async (): Promise<Socket> => {
      const socket = connect(port, "127.0.0.1");
      sockets.add(socket);
      socket.on("error", () => undefined);
      await once(socket, "connect");
      return socket;
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

test("who says nothing or has left again is not let in", async () => {
  await using door = await startDoor();
  await door.open();
  (await door.open()).resetAndDestroy();
  (await door.open()).end();
  (await door.open()).write("hello");
  await expect.poll(() => door.said).toEqual(["hello"]);
  expect(door.taken()).toBe(4);
});

test("those that wait are let in as they came, and the last ones first once they have waited for long", async () => {
  for (const [staleMs, order] of [
    [60_000, ["a", "b", "c", "d"]],
    [-1, ["d", "c", "b", "a"]],
  ] as const) {
    await using door = await startDoor(staleMs);
    const [first, ...rest] = [await door.open(), await door.open(), await door.open(), await door.open()];
    await expect.poll(door.taken).toBe(4);
    first?.write("a");
    for (const [at, socket] of rest.entries()) socket.write("bcd".charAt(at));
    await expect.poll(() => door.said).toHaveLength(4);
    // The one that came while nobody waited was let in at once.
    const [, ...waited] = door.said;
    if (staleMs < 0) expect(waited).toEqual(order.filter((name) => name !== door.said[0]));
    else expect(door.said).toEqual(order);
  }
});
