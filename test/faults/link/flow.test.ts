import { expect, test } from "vitest";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { NodeLink } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { noDeadline } from "../../../shared/rpc/deadline.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";

const kib = 1024;
const mib = 1024 * kib;

function residentBytes(): number {
  return process.memoryUsage.rss();
}

proves(
  "link.paused-reader-bounded",
  "a reader that stopped holds its sender within its credit and within 64 MiB",
  { timeout: 120_000 },
  async () => {
    await using gateway = await openLinkGateway();
    let sentBytes = 0;
    let takenBytes = 0;
    const resume = Promise.withResolvers<void>();
    const services = [
      serve(Files, {
        read: async function* ({ offset }) {
          const chunk = Buffer.alloc(Number(offset), 1);
          for (let at = 0; at < 1024 * mib; at += chunk.byteLength) {
            sentBytes += chunk.byteLength;
            yield { part: { case: "chunk", value: chunk } };
          }
        },
        write: async (requests) => {
          for await (const { part } of requests) {
            if (part.case === "chunk") takenBytes += part.value.byteLength;
            if (takenBytes > 40 * mib) await resume.promise;
          }
          return {};
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services });
    const files = (await whenLinked(gateway)).client(Files);
    for (const sizeBytes of [64 * kib, mib]) {
      sentBytes = 0;
      let readBytes = 0;
      const answers = files.read({ offset: BigInt(sizeBytes) }, { bulk: true })[Symbol.asyncIterator]();
      // The reader runs long enough for its credit to grow as far as it goes, then stops.
      while (readBytes < 40 * mib) {
        await answers.next();
        readBytes += sizeBytes;
      }
      const before = residentBytes();
      let last = -1;
      await expect
        .poll(
          () => {
            const still = sentBytes === last;
            last = sentBytes;
            return still;
          },
          { interval: 200 },
        )
        .toBe(true);
      // What the generator holds ready for its next turn is not in flight.
      expect(sentBytes - readBytes).toBeLessThanOrEqual(8 * mib + 2 * sizeBytes);
      expect(residentBytes() - before).toBeLessThan(64 * mib);
      await answers.return?.();
    }
    for (const sizeBytes of [64 * kib, mib]) {
      takenBytes = 0;
      let givenBytes = 0;
      const stop = new AbortController();
      async function* upload() {
        const value = Buffer.alloc(sizeBytes, 1);
        for (let at = 0; at < 1024 * mib; at += sizeBytes) {
          givenBytes += sizeBytes;
          yield { part: { case: "chunk" as const, value } };
        }
      }
      const written = faultOf(files.write(upload(), { bulk: true, signal: stop.signal }));
      await expect.poll(() => takenBytes).toBeGreaterThan(40 * mib);
      const before = residentBytes();
      let last = -1;
      await expect
        .poll(
          () => {
            const still = givenBytes === last;
            last = givenBytes;
            return still;
          },
          { interval: 200 },
        )
        .toBe(true);
      expect(givenBytes - takenBytes).toBeLessThanOrEqual(8 * mib + 2 * sizeBytes);
      expect(residentBytes() - before).toBeLessThan(64 * mib);
      stop.abort();
      await written;
    }
    resume.resolve();
  },
);

proves(
  "link.pause-resume-in-order",
  "10,000 numbered messages reach a reader that pauses 100 times, once and in order",
  { timeout: 60_000 },
  async () => {
    await using gateway = await openLinkGateway();
    const services = [
      serve(Files, {
        read: async function* () {
          for (let at = 0; at < 10_000; at += 1) {
            const value = Buffer.alloc(1000);
            value.writeUInt32BE(at);
            yield { part: { case: "chunk", value } };
          }
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services });
    const files = (await whenLinked(gateway)).client(Files);
    const seen: number[] = [];
    for await (const { part } of files.read({})) {
      if (part.case === "chunk") seen.push(Buffer.from(part.value).readUInt32BE());
      if (seen.length % 100 === 0) await systemClock.sleep(5);
    }
    expect(seen).toEqual(Array.from({ length: 10_000 }, (_, at) => at));
  },
);

proves(
  "link.bidi-both-stopped",
  "a call whose two sides both stop reading ends whole once both go on",
  { timeout: 60_000 },
  async () => {
    await using gateway = await openLinkGateway();
    const count = 64;
    const size = mib;
    let received = 0;
    const services = [
      serve(NodeLink, {
        control: async function* (requests) {
          const readAll = (async () => {
            await systemClock.sleep(3000);
            for await (const { kind } of requests)
              if (kind.case === "drain") received += kind.value.reason.length;
          })();
          for (let at = 0; at < count; at += 1) {
            yield { kind: { case: "drain", value: { deadlineMs: at, reason: "n".repeat(size) } } };
          }
          await readAll;
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services });
    const link = await whenLinked(gateway);
    async function* requests() {
      for (let at = 0; at < count; at += 1) {
        yield { kind: { case: "drain" as const, value: { deadlineMs: at, reason: "g".repeat(size) } } };
      }
    }
    const answers = link.client(NodeLink).control(requests(), { deadlineMs: 60_000 })[Symbol.asyncIterator]();
    const first = await answers.next();
    await systemClock.sleep(3000);
    const order: number[] = [];
    for (let next = first; !next.done; next = await answers.next()) {
      const { kind } = next.value;
      if (kind.case === "drain" && kind.value.reason.length === size) order.push(kind.value.deadlineMs);
    }
    expect(order).toEqual(Array.from({ length: count }, (_, at) => at));
    expect(received).toBe(count * size);
  },
);

proves(
  "link.control-never-starved",
  "500 watches that nobody reads hold up neither a short call nor a file nor the heartbeat",
  { timeout: 120_000 },
  async () => {
    // The usual heartbeat: how long 500 watches take to begin is the machine's affair.
    await using gateway = await openLinkGateway();
    const services = [
      serve(Files, {
        stat: async ({ path }) => ({ entry: { path } }),
        read: async function* ({ path, length }) {
          const value = Buffer.alloc(path === "watch" ? 4000 : 256 * kib, 3);
          for (let at = 0; path === "watch" || at < Number(length); at += value.byteLength) {
            yield { part: { case: "chunk", value } };
          }
        },
      }),
    ];
    await using node = await openLinkNode(gateway, { services });
    const link = await whenLinked(gateway);
    const files = link.client(Files);
    const states = new Set<string>();
    const stop = new AbortController();
    const watching = (async () => {
      for await (const { state } of gateway.host.links.changes({ signal: stop.signal })) states.add(state);
    })();
    const watches = Array.from({ length: 500 }, () =>
      files.read({ path: "watch" }, { deadlineMs: noDeadline, signal: stop.signal })[Symbol.asyncIterator](),
    );
    // Each is begun and never read again.
    await Promise.all(watches.map((watch) => watch.next()));
    expect(gateway.server.callCount).toBeGreaterThan(500);
    // One that is quick is enough: a machine that is busy with other things holds up calls too, a starved link all of them.
    await expect
      .poll(
        async () => {
          const begunAt = performance.now();
          await files.stat({ path: "short" });
          return performance.now() - begunAt;
        },
        { timeout: 20_000 },
      )
      .toBeLessThan(1000);
    let readBytes = 0;
    for await (const { part } of files.read({ length: BigInt(100 * mib) }, { bulk: true })) {
      if (part.case === "chunk") readBytes += part.value.byteLength;
    }
    expect(readBytes).toBe(100 * mib);
    expect(node.status().state).toBe("online");
    stop.abort();
    await Promise.all(watches.map((watch) => watch.next().catch(() => undefined)));
    await watching;
    expect(states).toEqual(new Set(["online"]));
  },
);

test("transfers in both directions at once do not hold each other up", { timeout: 120_000 }, async () => {
  await using gateway = await openLinkGateway();
  const size = 64 * mib;
  const services = [
    serve(Files, {
      read: async function* () {
        const value = Buffer.alloc(256 * kib, 1);
        for (let at = 0; at < size; at += value.byteLength) yield { part: { case: "chunk", value } };
      },
      write: async (requests) => {
        let sizeBytes = 0;
        for await (const { part } of requests) if (part.case === "chunk") sizeBytes += part.value.byteLength;
        return { entry: { sizeBytes: BigInt(sizeBytes) } };
      },
    }),
  ];
  await using _node = await openLinkNode(gateway, { services });
  const files = (await whenLinked(gateway)).client(Files);
  async function* upload() {
    const value = Buffer.alloc(256 * kib, 1);
    for (let at = 0; at < size; at += value.byteLength) yield { part: { case: "chunk" as const, value } };
  }
  const readAll = async (): Promise<number> => {
    let sizeBytes = 0;
    for await (const { part } of files.read({}, { bulk: true })) {
      if (part.case === "chunk") sizeBytes += part.value.byteLength;
    }
    return sizeBytes;
  };
  const reads = Array.from({ length: 4 }, readAll);
  const writes = Array.from({ length: 4 }, () => files.write(upload(), { bulk: true }));
  expect(await Promise.all(reads)).toEqual([size, size, size, size]);
  for (const { entry } of await Promise.all(writes)) expect(entry?.sizeBytes).toBe(BigInt(size));
});
