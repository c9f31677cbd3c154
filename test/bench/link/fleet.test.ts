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

test("nodes whose gateway was killed are all back, and spread out", async () => {
  const authority = await makeAuthority();
  await using stack = new AsyncDisposableStack();
  const killed = stack.use(await spawnGateway(authority.server));
  const { port } = killed;
  const nodes: NodeLinkHandle[] = [];
  await growTo(nodes, 300, { authority, port, stack });
  await killed.kill();
  await systemClock.sleep(5000);
  stack.use(await spawnGateway(authority.server, port));
  const backAt = performance.now();
  // How many came in each second.
  const seconds: number[] = [];
  let half = Number.NaN;
  for (let before = 0; before < nodes.length;) {
    await systemClock.sleep(100);
    const now = nodes.filter((node) => node.status().state === "online").length;
    const tookMs = performance.now() - backAt;
    if (now >= nodes.length / 2 && Number.isNaN(half)) half = tookMs;
    const second = Math.floor(tookMs / 1000);
    seconds[second] = (seconds[second] ?? 0) + Math.max(0, now - before);
    before = Math.max(before, now);
    expect(tookMs).toBeLessThan(120_000);
  }
  const all = (performance.now() - backAt) / 1000;
  console.log(
    `${nodes.length} nodes back after a kill and 5 s: half in ${(half / 1000).toFixed(1)} s, all in ${all.toFixed(1)} s`,
  );
  for (const [second, count] of seconds.entries())
    console.log(`${String(second).padStart(3)} s ${"#".repeat(Math.ceil((count ?? 0) / 2))} ${count ?? 0}`);
  // With no jitter they would all come in the first second.
  expect(Math.max(...seconds.filter((count) => count !== undefined))).toBeLessThan(nodes.length / 2);
});
