import { expect, test } from "vitest";
import { Link } from "../../../gateway/link/link.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { NodeLink } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { faultOf } from "../../support/fault-of.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";
import { echoServices } from "./echo-services.ts";
import { openLinkGateway, openLinkNode, whenLinked, type LinkGateway } from "./open-link.ts";

const mib = 1024 * 1024;

/** Streams that the node holds open: the server's calls without the control stream. */
function streamCount(gateway: LinkGateway): number {
  return gateway.server.callCount - 1;
}

proves(
  "link.call-one-round-trip",
  "a call on a free stream costs one round trip and opens none",
  async () => {
    await using gateway = await openLinkGateway();
    await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
    await using _node = await openLinkNode(gateway, {
      addresses: [`127.0.0.1:${proxy.port}`],
      services: echoServices(),
    });
    const files = (await whenLinked(gateway)).client(Files);
    await files.stat({ path: "warm" });
    await expect.poll(() => streamCount(gateway)).toBe(1);
    proxy.delay(150);
    for (const path of ["a", "b", "c"]) {
      const begunAt = performance.now();
      expect((await files.stat({ path })).entry?.path).toBe(path);
      const tookMs = performance.now() - begunAt;
      // One round trip is 300 ms, two would be 600.
      expect(tookMs).toBeGreaterThan(299);
      expect(tookMs).toBeLessThan(580);
      expect(streamCount(gateway)).toBe(1);
    }
  },
);

proves(
  "link.stream-pool-follows-load",
  "the pool grows in steps with the calls and shrinks when they are over",
  async () => {
    const clock = new ManualClock();
    await using gateway = await openLinkGateway({ clock });
    const begun: string[] = [];
    const release = Promise.withResolvers<void>();
    let openWhenFirstBegan = 0;
    const services = [
      serve(Files, {
        stat: async ({ path }) => {
          begun.push(path);
          if (begun.length === 2) openWhenFirstBegan = streamCount(gateway);
          await release.promise;
          return { entry: { path } };
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services });
    const files = (await whenLinked(gateway)).client(Files);
    await expect.poll(() => streamCount(gateway)).toBe(1);
    const names = Array.from({ length: 200 }, (_, at) => String(at));
    const calls = names.map(async (path) => (await files.stat({ path })).entry?.path);
    const late = faultOf(files.stat({ path: "late" }, { deadlineMs: 1000 }));
    await expect.poll(() => begun.length).toBe(64);
    expect(streamCount(gateway)).toBe(64);
    expect(openWhenFirstBegan).toBeLessThan(64);
    // The rest waits in order, and not beyond its deadline.
    expect(begun.toSorted((a, b) => Number(a) - Number(b))).toEqual(names.slice(0, 64));
    await clock.advance(1001);
    expect(await late).toMatchObject({ code: "DEADLINE_EXCEEDED", details: { stage: "queued" } });
    release.resolve();
    expect(await Promise.all(calls)).toEqual(names);
    expect(begun.map(Number).slice(64)).toEqual(
      begun
        .map(Number)
        .slice(64)
        .toSorted((a, b) => a - b),
    );
    expect(streamCount(gateway)).toBe(64);
    for (let seconds = 0; seconds < 30; seconds += 5) {
      await clock.advance(5001);
      // The node answers the heartbeat in real time.
      await expect
        .poll(() => clock.now() - gateway.host.links.presence("devbox").lastSeenMs)
        .toBeLessThan(10_000);
    }
    await expect.poll(() => streamCount(gateway)).toBe(1);
    expect((await files.stat({ path: "after" })).entry?.path).toBe("after");
  },
);

proves(
  "link.message-too-large",
  "a message above 4 MiB fails its call alone, whichever way it goes",
  async () => {
    await using gateway = await openLinkGateway();
    const read: number[] = [];
    const services = [
      ...echoServices(),
      serve(Files, {
        stat: async ({ path }) => ({ entry: { path } }),
        read: async function* ({ length }) {
          yield { part: { case: "chunk", value: new Uint8Array(Number(length)) } };
        },
        write: async (requests) => {
          for await (const { part } of requests) if (part.case === "chunk") read.push(part.value.byteLength);
          return {};
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services });
    const link = await whenLinked(gateway);
    const files = link.client(Files);
    // Tag and length of a chunk of this size take five bytes.
    const chunkBytes = 4 * mib - 5;
    const tooLarge = { code: "TOO_LARGE", details: { limit: 4_194_304, actual: 4_194_305 } };
    async function* upload(sizeBytes: number) {
      yield { part: { case: "chunk" as const, value: new Uint8Array(sizeBytes) } };
    }
    expect(await Array.fromAsync(files.read({ length: BigInt(chunkBytes) }))).toHaveLength(1);
    expect(await faultOf(Array.fromAsync(files.read({ length: BigInt(chunkBytes + 1) })))).toMatchObject(
      tooLarge,
    );
    expect((await files.stat({ path: "next" })).entry?.path).toBe("next");
    await files.write(upload(chunkBytes));
    expect(await faultOf(files.write(upload(chunkBytes + 1)))).toMatchObject(tooLarge);
    expect((await files.stat({ path: "next" })).entry?.path).toBe("next");
    expect(read).toEqual([chunkBytes]);
    expect(gateway.host.links.find("devbox")).toBe(link);
  },
);

proves(
  "link.early-status",
  "an answer before the end of the request is delivered at once, and the next call is clean",
  async () => {
    await using gateway = await openLinkGateway();
    const seen: bigint[][] = [];
    const services = [
      serve(Files, {
        write: async (requests) => {
          for await (const { part } of requests) {
            if (part.case === "chunk") throw new Fault("CONFLICT", "not this one");
          }
          return {};
        },
      }),
      serve(NodeLink, {
        control: async function* (requests) {
          const sequences: bigint[] = [];
          seen.push(sequences);
          for await (const { kind } of requests) {
            if (kind.case !== "ping") continue;
            sequences.push(kind.value.sequence);
            yield { kind: { case: "pong", value: { sequence: kind.value.sequence } } };
            if (kind.value.sequence % 10n === 9n) return;
          }
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services });
    const link = await whenLinked(gateway);
    let sent = 0;
    async function* endless() {
      yield { part: { case: "header" as const, value: { path: "x" } } };
      for (;;) {
        sent += 1;
        yield { part: { case: "chunk" as const, value: Buffer.alloc(64 * 1024, 1) } };
      }
    }
    expect(await faultOf(link.client(Files).write(endless()))).toMatchObject({ code: "CONFLICT" });
    const sentThen = sent;
    async function* pings(from: bigint) {
      for (let sequence = from; ; sequence += 1n)
        yield { kind: { case: "ping" as const, value: { sequence } } };
    }
    for (const from of [0n, 100n, 200n]) {
      const pongs = await Array.fromAsync(link.client(NodeLink).control(pings(from)));
      expect(pongs).toHaveLength(10);
    }
    expect(seen).toHaveLength(3);
    for (const [at, sequences] of seen.entries()) expect(sequences[0]).toBe(BigInt(at) * 100n);
    expect(sent).toBe(sentThen);
    expect(streamCount(gateway)).toBe(1);
  },
);

test("a method that the node does not serve fails before dispatch", async () => {
  await using gateway = await openLinkGateway();
  await using _node = await openLinkNode(gateway, { services: echoServices() });
  const link = await whenLinked(gateway);
  expect(await faultOf(link.client(Files).move({}))).toMatchObject({ code: "VERSION_UNSUPPORTED" });
});

proves(
  "link.key-with-other-request",
  "a key that is repeated with another request is a conflict, and nothing runs",
  async () => {
    await using gateway = await openLinkGateway();
    const ran: string[] = [];
    const services = [
      serve(Files, {
        remove: async ({ path }) => {
          ran.push(path);
          return { removed: 1n };
        },
        makeFolder: async ({ path }) => {
          ran.push(path);
          return {};
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services });
    const files = (await whenLinked(gateway)).client(Files);
    const options = { idempotencyKey: "key-1" };
    expect((await files.remove({ path: "a" }, options)).removed).toBe(1n);
    expect(await faultOf(files.remove({ path: "b" }, options))).toMatchObject({ code: "CONFLICT" });
    expect(await faultOf(files.makeFolder({ path: "a" }, options))).toMatchObject({ code: "CONFLICT" });
    expect((await files.remove({ path: "a" }, options)).removed).toBe(1n);
    expect(ran).toEqual(["a"]);
  },
);

for (const shortCalls of [true, false]) {
  test(`a call that runs once answers its repeats alike, and gives its credit back, ${shortCalls ? "in two frames" : "in five"}`, async () => {
    const budget = { gatewayBytes: 64 * mib, linkBytes: 32 * mib };
    await using gateway = await openLinkGateway({ budgets: budget });
    const ran: string[] = [];
    const services = [
      serve(Files, {
        stat: async ({ path }) => ({ entry: { path } }),
        remove: async ({ path }) => {
          ran.push(path);
          if (path === "refused") throw new Fault("CONFLICT", "not this one");
          return { removed: 7n };
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services, shortCalls });
    const link = await whenLinked(gateway);
    expect(link.hello.shortCalls).toBe(shortCalls);
    const files = link.client(Files);
    for (const path of ["done", "refused", "x".repeat(20_000)]) {
      const once = async (): Promise<unknown> =>
        await files.remove({ path }, { idempotencyKey: path.slice(0, 40) }).then(
          ({ removed }) => removed,
          (error: unknown) => (error instanceof Fault ? error.code : error),
        );
      const first = await once();
      expect([await once(), await once()]).toEqual([first, first]);
      expect(first).toBe(path === "refused" ? "CONFLICT" : 7n);
    }
    expect(ran).toHaveLength(3);
    // Short and long both ways, at once and after a call that its caller left.
    const paths = Array.from({ length: 40 }, (_, at) => "y".repeat(at * 1000));
    const stop = new AbortController();
    const left = faultOf(files.stat({ path: "z".repeat(100_000) }, { signal: stop.signal }));
    stop.abort(new Fault("CANCELLED", "no longer needed"));
    expect(await left).toMatchObject({ code: "CANCELLED" });
    const answered = await Promise.all(paths.map(async (path) => (await files.stat({ path })).entry?.path));
    expect(answered).toEqual(paths);
    expect(link instanceof Link && link.budget.takenBytes).toBe(0);
  });
}
