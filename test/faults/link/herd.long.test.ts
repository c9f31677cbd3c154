import { expect } from "vitest";
import { systemClock, type Clock } from "../../../shared/lifetime/clock.ts";
import { openLinkGateway, openLinkNode } from "../../contract/rpc/open-link.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { proves } from "../../support/proves.ts";

const nodeCount = 200;

/** The nodes share one processor here: on a clock ten times as slow what is seen is when they come, not how fast it is. */
const slowness = 10;

const startsAt = Date.now();

const slowClock: Clock = {
  now: () => startsAt + (Date.now() - startsAt) / slowness,
  sleep: (ms, options) => systemClock.sleep(ms * slowness, options),
  after: (ms, then) => systemClock.after(ms * slowness, then),
};

proves(
  "link.herd-spread",
  "200 nodes whose gateway was gone for 5 s come back spread out, all of them within 45 s",
  { timeout: 240_000 },
  async () => {
    await using gateway = await openLinkGateway();
    await using line = await startFaultProxy({ targetPort: gateway.server.port });
    await using stack = new AsyncDisposableStack();
    const addresses = [`127.0.0.1:${line.port}`];
    const nodes = await Promise.all(
      Array.from({ length: nodeCount }, async (_, at) =>
        stack.use(await openLinkNode(gateway, { name: `node-${at}`, addresses, clock: slowClock })),
      ),
    );
    const online = (): number => nodes.filter((node) => node.status().state === "online").length;
    await expect.poll(online, { timeout: 60_000, interval: 100 }).toBe(nodeCount);
    line.refuse();
    line.cut();
    await slowClock.sleep(5000);
    expect(online()).toBe(0);

    // Every TCP connection that the line takes counts, also that of a node which only looks whether somebody listens.
    const connectedAt: number[] = [];
    let before = line.counts.connections;
    const backAt = slowClock.now();
    await line.accept();
    while (online() < nodeCount) {
      await slowClock.sleep(2);
      const now = slowClock.now();
      for (; before < line.counts.connections; before += 1) connectedAt.push(now);
      expect(now - backAt).toBeLessThan(45_000);
    }
    // The mean is that of the time from the first of them to the last.
    const firstAt = Math.min(...connectedAt);
    const tenths = Map.groupBy(connectedAt, (at) => Math.floor((at - firstAt) / 100));
    const most = Math.max(...tenths.values().map(({ length }) => length));
    const mean = connectedAt.length / (Math.max(...tenths.keys()) + 1);
    expect(connectedAt.length).toBeGreaterThanOrEqual(nodeCount);
    expect(most / mean).toBeLessThan(3);
  },
);
