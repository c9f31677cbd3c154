import { expect, test } from "vitest";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { openLinkGateway, openLinkNode } from "../../contract/rpc/open-link.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";

const nodeCount = 200;

test(
  "200 nodes whose gateway was gone for 5 s come back spread out, all of them within 45 s",
  { timeout: 120_000 },
  async () => {
    const acceptedAt: number[] = [];
    await using gateway = await openLinkGateway({ admission: { perSecond: 100, burstCount: 400 } });
    await using line = await startFaultProxy({ targetPort: gateway.server.port });
    await using stack = new AsyncDisposableStack();
    const nodes = await Promise.all(
      Array.from({ length: nodeCount }, async (_, at) =>
        stack.use(await openLinkNode(gateway, { name: `node-${at}`, addresses: [`127.0.0.1:${line.port}`] })),
      ),
    );
    const online = (): number => nodes.filter((node) => node.status().state === "online").length;
    await expect.poll(online, { timeout: 60_000, interval: 100 }).toBe(nodeCount);
    line.refuse();
    line.cut();
    await systemClock.sleep(5000);
    const stop = new AbortController();
    const watching = (async () => {
      for await (const { state } of gateway.host.links.changes({ signal: stop.signal }))
        if (state === "online") acceptedAt.push(performance.now());
    })();
    const backAt = performance.now();
    await line.accept();
    await expect.poll(online, { timeout: 45_000, interval: 50 }).toBe(nodeCount);
    expect(performance.now() - backAt).toBeLessThan(45_000);
    stop.abort();
    await watching;
    const bins = new Map<number, number>();
    for (const at of acceptedAt) {
      const bin = Math.floor((at - backAt) / 100);
      bins.set(bin, (bins.get(bin) ?? 0) + 1);
    }
    // Without jitter most of them would come in the first tenth of a second.
    expect(Math.max(...bins.values())).toBeLessThan(nodeCount / 6);
    expect(bins.size).toBeGreaterThan(20);
  },
);
