import { expect, test } from "vitest";
import type { NodeLinkHandle } from "../../../node-agent/link/link-options.ts";
import { startLink } from "../../../node-agent/link/start-link.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { makeAuthority, type Authority } from "../../contract/rpc/throwaway-certificates.ts";
import { proves } from "../../support/proves.ts";
import { spawnGateway } from "./spawn-gateway.ts";

const kib = 1024;

/** More nodes, until there are `count` of them online; a few at a time. */
async function growTo(
  nodes: NodeLinkHandle[],
  count: number,
  {
    authority,
    port,
    stack,
  }: { readonly authority: Authority; readonly port: number; readonly stack: AsyncDisposableStack },
): Promise<void> {
  while (nodes.length < count) {
    const some = await Promise.all(
      Array.from({ length: Math.min(20, count - nodes.length) }, async (_, at) => {
        const tls = await authority.client(`node-${nodes.length + at}`);
        return stack.use(startLink({ addresses: [`127.0.0.1:${port}`], loadTls: () => tls, services: [] }));
      }),
    );
    nodes.push(...some);
    await untilOnline(nodes);
  }
}

async function untilOnline(nodes: readonly NodeLinkHandle[], timeoutMs = 120_000): Promise<void> {
  await expect
    .poll(() => nodes.every((node) => node.status().state === "online"), { timeout: timeoutMs, interval: 20 })
    .toBe(true);
}

proves(
  "link.idle-links-linear",
  "an idle link costs at 1,000 links at most 1.2 times what it costs at 100",
  async () => {
    const authority = await makeAuthority();
    await using stack = new AsyncDisposableStack();
    const gateway = stack.use(await spawnGateway(authority.server));
    const { port } = gateway;
    const nodes: NodeLinkHandle[] = [];
    // Code is compiled and pools are made with the first ones.
    await growTo(nodes, 20, { authority, port, stack });
    await systemClock.sleep(2000);
    const before = await gateway.memory();
    const each = async (count: number): Promise<number> => {
      await growTo(nodes, count, { authority, port, stack });
      await systemClock.sleep(2000);
      return ((await gateway.memory()) - before) / (count - 20);
    };
    const atHundred = await each(120);
    const atThousand = await each(1020);
    console.log(
      `an idle link of a gateway process: ${(atHundred / kib).toFixed(0)} KiB at 100, ${(atThousand / kib).toFixed(0)} KiB at 1,000`,
    );

    expect(atThousand).toBeLessThanOrEqual(1.2 * atHundred);
  },
);

test("1,000 nodes whose gateway was killed are all back, and spread out", async () => {
  const authority = await makeAuthority();
  await using stack = new AsyncDisposableStack();
  const killed = stack.use(await spawnGateway(authority.server));
  const { port } = killed;
  const nodes: NodeLinkHandle[] = [];
  await growTo(nodes, 1000, { authority, port, stack });
  await killed.kill();
  await systemClock.sleep(5000);
  stack.use(await spawnGateway(authority.server, port));
  const backAt = performance.now();
  // When each of them was seen to be back, in milliseconds.
  const seenMs: number[] = [];
  while (seenMs.length < nodes.length) {
    await systemClock.sleep(100);
    const tookMs = performance.now() - backAt;
    const online = nodes.filter((node) => node.status().state === "online").length;
    while (seenMs.length < online) seenMs.push(tookMs);
    expect(tookMs).toBeLessThan(120_000);
  }
  const secondsAt = (share: number): string => ((seenMs[seenMs.length * share - 1] ?? NaN) / 1000).toFixed(1);
  console.log(
    `${nodes.length} nodes back after a kill and 5 s: half in ${secondsAt(0.5)} s, nine in ten in ${secondsAt(0.9)} s, all in ${secondsAt(1)} s`,
  );
  const seconds = Map.groupBy(seenMs, (tookMs) => Math.floor(tookMs / 1000));
  for (let second = 0; second <= Math.max(...seconds.keys()); second += 1) {
    const { length } = seconds.get(second) ?? [];
    console.log(`${String(second).padStart(3)} s ${"#".repeat(Math.ceil(length / 5))} ${length}`);
  }
});
