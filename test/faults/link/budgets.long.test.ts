import { expect, test } from "vitest";
import { gatewayDefaults } from "../../../gateway/config/gateway-settings.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { firstCreditBytes } from "../../../shared/rpc/reverse/credit.ts";
import type { Client } from "../../../shared/rpc/service.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked, type LinkGateway } from "../../contract/rpc/open-link.ts";
import { proves } from "../../support/proves.ts";

const mib = 1024 * 1024;
const chunkBytes = 64 * 1024;
const readerCount = 20;

test("a link and the gateway have the budgets of the manual by default", () => {
  expect(gatewayDefaults.limits).toMatchObject({
    linkBytesInFlight: 64 * mib,
    gatewayBytesInFlight: 1024 * mib,
  });
});

/** A node that sends without an end, and what of it is on its way. */
interface Sender {
  readonly files: Client<typeof Files>;
  readonly inFlight: () => number;
  readonly stopReaders: () => Promise<void>;
}

/** A node with readers that took as much as makes their credit grow, and stopped. */
async function startStopped(
  gateway: LinkGateway,
  name: string,
  stack: AsyncDisposableStack,
): Promise<Sender> {
  const counted = { sent: 0, read: 0 };
  const chunk = Buffer.alloc(chunkBytes, 3);
  const services = [
    serve(Files, {
      stat: async ({ path }) => ({ entry: { path } }),
      read: async function* ({ path }) {
        for (;;) {
          if (path !== "goes on") counted.sent += chunkBytes;
          yield { part: { case: "chunk", value: chunk } };
        }
      },
    }),
  ];
  stack.use(await openLinkNode(gateway, { name, services }));
  const files = (await whenLinked(gateway, name)).client(Files);
  const readers = Array.from({ length: readerCount }, () =>
    files.read({ path: "stops" })[Symbol.asyncIterator](),
  );
  for (const reader of readers) {
    for (let taken = 0; taken < 1.25 * mib; taken += chunkBytes) {
      await reader.next();
      counted.read += chunkBytes;
    }
  }
  return {
    files,
    // What a generator holds ready for its next turn is not in flight.
    inFlight: () => counted.sent - counted.read - readerCount * chunkBytes,
    stopReaders: async () => {
      for (const reader of readers) await reader.return?.();
    },
  };
}

async function whenStill(measure: () => number): Promise<number> {
  let last = -1;
  await expect
    .poll(
      () => {
        const still = measure() === last;
        last = measure();
        return still;
      },
      { interval: 300, timeout: 60_000 },
    )
    .toBe(true);
  return last;
}

/** Every node answers at once, and a call whose reader goes on has at least its first credit. */
async function expectServed(senders: readonly Sender[]): Promise<void> {
  for (const { files } of senders) {
    const begunAt = performance.now();
    expect((await files.stat({ path: "short" })).entry?.path).toBe("short");
    expect(performance.now() - begunAt).toBeLessThan(1000);
  }
}

proves(
  "link.link-and-gateway-budget",
  "stopped readers hold no more than the budgets of their link and of the gateway, and starve nobody",
  { timeout: 180_000 },
  async () => {
    // A quarter of what is usual, but for the readers and the links.
    const linkBytes = gatewayDefaults.limits.linkBytesInFlight / 4;
    const gatewayBytes = gatewayDefaults.limits.gatewayBytesInFlight / 4;
    await using gateway = await openLinkGateway({ budgets: { linkBytes, gatewayBytes } });
    await using stack = new AsyncDisposableStack();
    const senders = [await startStopped(gateway, "node-0", stack)];
    const [alone] = senders;
    if (!alone) throw new Error("there is no node");
    const ofOne = await whenStill(alone.inFlight);
    expect(ofOne).toBeLessThanOrEqual(linkBytes);
    expect(ofOne).toBeGreaterThan(linkBytes / 4);
    await expectServed(senders);

    for (let at = 1; at < 40; at += 1) senders.push(await startStopped(gateway, `node-${at}`, stack));
    const total = await whenStill(() => senders.reduce((sum, { inFlight }) => sum + inFlight(), 0));
    expect(total).toBeLessThanOrEqual(gatewayBytes);
    expect(total).toBeGreaterThan(gatewayBytes / 4);
    for (const { inFlight } of senders) expect(inFlight()).toBeLessThanOrEqual(linkBytes);
    await expectServed(senders);

    // With every budget taken, a call that is read goes on with the credit that each call begins with.
    let readBytes = 0;
    const begunAt = performance.now();
    for await (const { part } of alone.files.read({ path: "goes on" })) {
      if (part.case === "chunk") readBytes += part.value.byteLength;
      if (readBytes >= 64 * firstCreditBytes) break;
    }
    const tookMs = performance.now() - begunAt;
    // Sixty-four times its first credit: with less than that in flight at a time it would take turns without number.
    expect(tookMs).toBeLessThan(10_000);
    await Promise.all(senders.map(({ stopReaders }) => stopReaders()));
  },
);
