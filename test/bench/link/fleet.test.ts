import { expect } from "vitest";
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
  "an idle link costs at 1,000 links at most 1.2 times what it costs at 100, and all are back after a kill",
  async () => {
    const authority = await makeAuthority();
    await using stack = new AsyncDisposableStack();
    let gateway = stack.use(await spawnGateway(authority.server));
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

    await gateway.kill();
    await systemClock.sleep(5000);
    const backAt = performance.now();
    gateway = stack.use(await spawnGateway(authority.server, port));
    const arrivals = nodes.map(() => Number.NaN);
    const watching = nodes.map(async (node, at) => {
      for await (const { state } of node.changes({ signal: AbortSignal.timeout(60_000) })) {
        if (state !== "online") continue;
        arrivals[at] = performance.now() - backAt;
        return;
      }
    });
    await Promise.all(watching);
    await untilOnline(nodes);
    const sorted = arrivals.toSorted((a, b) => a - b);
    const seconds = new Map<number, number>();
    for (const at of sorted)
      seconds.set(Math.floor(at / 1000), (seconds.get(Math.floor(at / 1000)) ?? 0) + 1);
    console.log(
      `${nodes.length} nodes back after a kill and 5 s: half in ${((sorted[510] ?? 0) / 1000).toFixed(1)} s, all in ${((sorted.at(-1) ?? 0) / 1000).toFixed(1)} s`,
    );
    for (const [second, count] of seconds)
      console.log(`${String(second).padStart(3)} s ${"#".repeat(Math.ceil(count / 5))} ${count}`);
    expect(atThousand).toBeLessThanOrEqual(1.2 * atHundred);
  },
);
