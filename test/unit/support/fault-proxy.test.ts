import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import type { FaultProxy } from "../../support/fault-proxy.ts";

/** One end of a connection, and what it has read. */
class End {
  readonly socket: Socket;
  bytes = Buffer.alloc(0);
  chunks = 0;
  ended = false;
  error: string | undefined;

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("data", (chunk: Buffer) => {
      this.bytes = Buffer.concat([this.bytes, chunk]);
      this.chunks += 1;
    });
    socket.on("end", () => void (this.ended = true));
    socket.on("error", (error: NodeJS.ErrnoException) => void (this.error = error.code));
  }

  get text(): string {
    return this.bytes.toString();
  }
}

let stack: AsyncDisposableStack;
let proxy: FaultProxy;
let targets: End[];

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  targets = [];
  const server = createServer({ allowHalfOpen: true }, (socket) => void targets.push(new End(socket)));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(async () => {
    for (const { socket } of targets) socket.destroy();
    server.close();
    await once(server, "close");
  });
  proxy = stack.use(await startFaultProxy({ targetPort: (server.address() as AddressInfo).port }));
});

afterEach(async () => {
  await stack.disposeAsync();
});

function dial(): End {
  const client = new End(connect({ port: proxy.port, host: "127.0.0.1", allowHalfOpen: true }));
  stack.defer(() => void client.socket.destroy());
  return client;
}

async function pair(): Promise<{ client: End; target: End }> {
  const before = targets.length;
  const client = dial();
  await expect.poll(() => targets.length).toBe(before + 1);
  const target = targets[before];
  if (!target) throw new Error("no connection arrived");
  return { client, target };
}

describe("a sound line", () => {
  test("carries both ways, counts, and passes ends on", async () => {
    const { client, target } = await pair();
    client.socket.write("ping");
    await expect.poll(() => target.text).toBe("ping");
    target.socket.end("answer");
    await expect.poll(() => client.text).toBe("answer");
    await expect.poll(() => client.ended).toBe(true);
    client.socket.end("more");
    await expect.poll(() => target.text).toBe("pingmore");
    await expect.poll(() => proxy.counts.open).toBe(0);
    expect(proxy.counts).toMatchObject({ connections: 1, up: { bytes: 8 }, down: { bytes: 6 } });
  });

  test("carries 32 MiB unchanged to a reader that is slower than the writer", async () => {
    const { client, target } = await pair();
    const bytes = Buffer.alloc(32 * 1024 * 1024, "0123456789abcdef!");
    target.socket.pause();
    client.socket.end(bytes);
    await expect.poll(() => proxy.counts.up.bytes).toBeGreaterThan(0);
    const chunks: Buffer[] = [];
    target.socket.removeAllListeners("data");
    for await (const chunk of target.socket) chunks.push(chunk as Buffer);
    expect(Buffer.concat(chunks).equals(bytes)).toBe(true);
  });
});

test("a cut ends both sides and leaves the port open", async () => {
  const { client, target } = await pair();
  proxy.cut();
  await expect.poll(() => [client.socket.readableEnded, target.socket.readableEnded]).toEqual([true, true]);
  expect((await pair()).target.error).toBeUndefined();
});

test("a cut with a reset is seen as one", async () => {
  const { client, target } = await pair();
  proxy.cut({ reset: true });
  await expect.poll(() => [client.error, target.error]).toEqual(["ECONNRESET", "ECONNRESET"]);
});

test("a stall holds everything back, and resuming loses nothing", async () => {
  const { client, target } = await pair();
  proxy.stall();
  client.socket.write("held");
  const late = await pair();
  late.client.socket.write("held too");
  // Another proxy's round trip would have brought the bytes by now.
  await using control = await startFaultProxy({ targetPort: proxy.port });
  const through = new End(connect({ port: control.port, host: "127.0.0.1" }));
  through.socket.write("x");
  await expect.poll(() => control.counts.up.bytes).toBe(1);
  expect([target.text, late.target.text, proxy.counts.up.bytes]).toEqual(["", "", 0]);
  proxy.resume();
  await expect.poll(() => [target.text, late.target.text]).toEqual(["held", "held too"]);
  through.socket.destroy();
});

test("what one direction swallows is counted and gone, ends too, while the other goes on", async () => {
  const { client, target } = await pair();
  proxy.swallow("up");
  client.socket.end("lost");
  await expect.poll(() => proxy.counts.up.swallowedBytes).toBe(4);
  target.socket.write("heard");
  await expect.poll(() => client.text).toBe("heard");
  expect([target.text, target.ended]).toEqual(["", false]);
});

test("a delay keeps the order and lets much be under way", async () => {
  const { client, target } = await pair();
  proxy.delay(100);
  const startedAt = performance.now();
  for (let number = 0; number < 1_000; number += 1) client.socket.write(`${number},`);
  client.socket.end();
  await expect.poll(() => target.ended).toBe(true);
  const tookMs = performance.now() - startedAt;
  expect(target.text).toBe(Array.from({ length: 1_000 }, (_, number) => `${number},`).join(""));
  // One delay, not one a write: a thousand of them would take 100 s.
  expect(tookMs).toBeGreaterThanOrEqual(99);
  expect(tookMs).toBeLessThan(10_000);
});

test("a limit holds the rate down", async () => {
  const { client, target } = await pair();
  proxy.limit(100_000);
  const startedAt = performance.now();
  client.socket.end(Buffer.alloc(30_000));
  await expect.poll(() => target.ended).toBe(true);
  expect(target.bytes.length).toBe(30_000);
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(250);
});

test("a line that chops brings the same bytes in pieces", async () => {
  const { client, target } = await pair();
  proxy.chop(3);
  client.socket.end("a frame in pieces");
  await expect.poll(() => target.ended).toBe(true);
  expect(target.text).toBe("a frame in pieces");
  expect(target.chunks).toBeGreaterThan(1);
});

test("half a close ends one direction and leaves the other", async () => {
  const { client, target } = await pair();
  client.socket.write("first");
  await expect.poll(() => target.text).toBe("first");
  proxy.halfClose("up");
  await expect.poll(() => target.ended).toBe(true);
  target.socket.write("still here");
  await expect.poll(() => client.text).toBe("still here");
});

test("new connections are refused, those there are go on, and the port comes back", async () => {
  const { client, target } = await pair();
  const { port } = proxy;
  proxy.refuse();
  const refused = dial();
  await expect.poll(() => refused.error).toBe("ECONNREFUSED");
  client.socket.write("on");
  await expect.poll(() => target.text).toBe("on");
  await proxy.accept();
  expect(proxy.port).toBe(port);
  await pair();
});

test("a target that is not there resets the client", async () => {
  await using nowhere = await startFaultProxy({ targetPort: proxy.port });
  nowhere.retarget(1);
  const client = new End(connect({ port: nowhere.port, host: "127.0.0.1" }));
  await expect.poll(() => client.error).toBe("ECONNRESET");
});

test("mending ends every fault, and the end of the proxy is the end of its connections", async () => {
  proxy.stall();
  proxy.swallow("down");
  proxy.delay(60_000);
  proxy.mend();
  const { client, target } = await pair();
  client.socket.write("sound");
  await expect.poll(() => target.text).toBe("sound");
  await proxy[Symbol.asyncDispose]();
  await expect.poll(() => client.socket.readableEnded && target.socket.readableEnded).toBe(true);
  expect(proxy.counts.open).toBe(0);
});
