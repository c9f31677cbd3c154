import { expect } from "vitest";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { proves } from "../../support/proves.ts";

const mib = 1024 * 1024;
const chunkBytes = 256 * 1024;

proves(
  "link.heartbeat-behind-bulk",
  "ten transfers over a slow line cost no heartbeat, no reconnect and no other state than online",
  { timeout: 90_000 },
  async () => {
    // Six intervals, as 60 s are of the usual 10 s, and a dead-after time of two and a half of them.
    const heartbeatMs = 1500;
    await using gateway = await openLinkGateway({
      heartbeat: { heartbeatMs, deadAfterMs: 2.5 * heartbeatMs },
    });
    await using line = await startFaultProxy({ targetPort: gateway.server.port });
    let taken = 0;
    const services = [
      serve(Files, {
        read: async function* () {
          for (;;) yield { part: { case: "chunk", value: Buffer.alloc(chunkBytes, 5) } };
        },
        write: async (requests) => {
          for await (const { part } of requests) if (part.case === "chunk") taken += part.value.byteLength;
          return {};
        },
      }),
    ];
    const faults: string[] = [];
    await using node = await openLinkNode(gateway, {
      addresses: [`127.0.0.1:${line.port}`],
      services,
      onFault: (error) => void faults.push(String(error)),
    });
    const link = await whenLinked(gateway);
    await expect.poll(() => node.status().state).toBe("online");
    const files = link.client(Files);
    // Both connections of the link share the line.
    line.share(mib);
    const stop = new AbortController();
    const { signal } = stop;
    const states = new Set<string>();
    const watching = (async () => {
      for await (const { state } of gateway.host.links.changes({ signal })) states.add(state);
    })();
    let readBytes = 0;
    const read = async (): Promise<void> => {
      for await (const { part } of files.read({}, { bulk: true, signal }))
        if (part.case === "chunk") readBytes += part.value.byteLength;
    };
    const chunks = async function* () {
      for (;;) yield { part: { case: "chunk" as const, value: Buffer.alloc(chunkBytes, 6) } };
    };
    const transfers = [
      ...Array.from({ length: 5 }, read),
      ...Array.from({ length: 5 }, () => files.write(chunks(), { bulk: true, signal })),
    ].map((transfer) => transfer.catch(() => undefined));
    let longestSilenceMs = 0;
    const endsAt = performance.now() + 6 * heartbeatMs;
    while (performance.now() < endsAt) {
      await systemClock.sleep(50);
      const { lastSeenMs } = gateway.host.links.presence("devbox");
      longestSilenceMs = Math.max(longestSilenceMs, Date.now() - lastSeenMs);
    }
    expect(gateway.host.links.find("devbox")).toBe(link);
    expect(node.status()).toMatchObject({ state: "online", generation: link.generation });
    expect(longestSilenceMs).toBeLessThan(2 * heartbeatMs);
    // The line was full, both ways.
    expect(readBytes).toBeGreaterThan(2 * mib);
    expect(taken).toBeGreaterThan(2 * mib);
    expect(faults).toEqual([]);
    expect(line.counts.connections).toBe(2);
    line.mend();
    stop.abort();
    await Promise.all(transfers);
    await watching;
    expect(states).toEqual(new Set(["online"]));
  },
);
