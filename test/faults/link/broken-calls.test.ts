import { expect } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { raceSignal } from "../../../shared/lifetime/clock.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { identifyByName, openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { makeAuthority } from "../../contract/rpc/throwaway-certificates.ts";
import { faultOf } from "../../support/fault-of.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";

const forever = (signal: AbortSignal): Promise<never> =>
  raceSignal(new Promise<never>(() => undefined), signal);

proves(
  "link.broken-call-costs-its-stream-only",
  "a call that breaks in its answer leaves the next one clean",
  async () => {
    await using gateway = await openLinkGateway();
    const services = [
      serve(Files, {
        read: async function* ({ path }, { signal }) {
          const mark = path.charCodeAt(0);
          for (let at = 0; at < 30; at += 1)
            yield { part: { case: "chunk", value: Buffer.alloc(5000, mark) } };
          if (path === "fails") throw new Fault("IO_ERROR", "the disk is gone");
          if (path === "hangs") await forever(signal);
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services });
    const link = await whenLinked(gateway);
    const files = link.client(Files);
    await expect.poll(() => gateway.server.callCount).toBe(2);
    const readWhole = async (): Promise<void> => {
      const parts = await Array.fromAsync(files.read({ path: "whole" }));
      const bytes = parts.map(({ part }) =>
        part.case === "chunk" ? Buffer.from(part.value) : Buffer.alloc(0),
      );
      expect(Buffer.concat(bytes).equals(Buffer.alloc(150_000, "w"))).toBe(true);
    };
    for (let round = 0; round < 10; round += 1) {
      expect(await faultOf(Array.fromAsync(files.read({ path: "fails" })))).toMatchObject({
        code: "IO_ERROR",
      });
      await readWhole();
      const stop = new AbortController();
      const cancelled = (async () => {
        for await (const _part of files.read({ path: "hangs" }, { signal: stop.signal })) {
          if (round % 2 === 0) stop.abort(new Fault("CANCELLED", "enough"));
          else queueMicrotask(() => stop.abort(new Fault("CANCELLED", "enough")));
        }
      })();
      expect(await faultOf(cancelled)).toMatchObject({ code: "CANCELLED" });
      await readWhole();
      for await (const _part of files.read({ path: "left" })) break;
      await readWhole();
    }
    expect(gateway.host.links.find("devbox")).toBe(link);
    await expect.poll(() => gateway.server.callCount).toBeLessThanOrEqual(9);
  },
);

proves("link.stage-named", "a call that fails for time or its link says how far it came", async () => {
  const clock = new ManualClock();
  await using gateway = await openLinkGateway({
    clock,
    heartbeat: { heartbeatMs: 10_000, deadAfterMs: 3_600_000 },
  });
  await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
  const running: string[] = [];
  const services = [
    serve(Files, {
      stat: async ({ path }, { signal }) => {
        running.push(path);
        return await forever(signal);
      },
      read: async function* ({ path }, { signal }) {
        running.push(path);
        yield {};
        await forever(signal);
      },
      remove: async ({ path }, { signal }) => {
        running.push(path);
        return await forever(signal);
      },
      makeFolder: async ({ path }, { signal }) => {
        running.push(path);
        return await forever(signal);
      },
    }),
  ];
  const node = await openLinkNode(gateway, { addresses: [`127.0.0.1:${proxy.port}`], services, clock });
  const first = await whenLinked(gateway);
  const { generation } = first;
  let files = first.client(Files);
  await expect.poll(() => gateway.server.callCount).toBe(2);

  // Running: the node itself says so.
  const atNode = faultOf(files.stat({ path: "at node" }, { deadlineMs: 1000 }));
  await expect.poll(() => running).toContain("at node");
  await clock.advance(1000);
  expect(await atNode).toMatchObject({ code: "DEADLINE_EXCEEDED", details: { stage: "running" } });

  // Dispatched: the node cannot answer. Queued: nor can it open a stream.
  await expect.poll(() => gateway.server.callCount).toBe(2);
  proxy.stall();
  const dispatched = faultOf(files.stat({ path: "dispatched" }, { deadlineMs: 2000 }));
  const queued = faultOf(files.stat({ path: "queued" }, { deadlineMs: 2000 }));
  await clock.advance(2300);
  expect(await dispatched).toMatchObject({ code: "DEADLINE_EXCEEDED", details: { stage: "dispatched" } });
  expect(await queued).toMatchObject({ code: "DEADLINE_EXCEEDED", details: { stage: "queued" } });
  proxy.cut();
  proxy.mend();
  await expect
    .poll(async () => {
      await clock.advance(100);
      return node.status().generation;
    })
    .toBeGreaterThan(generation);

  // The link is lost: before dispatch, and while the answer comes (it may not be repeated, for it stays open).
  files = (await whenLinked(gateway)).client(Files);
  await expect.poll(() => gateway.server.callCount).toBe(2);
  const stream = files
    .read({ path: "stream" }, { deadlineMs: Number.POSITIVE_INFINITY })
    [Symbol.asyncIterator]();
  await stream.next();
  await expect.poll(() => gateway.server.callCount).toBe(3);
  const once = faultOf(files.remove({ path: "once" }, { deadlineMs: 3000 }));
  await expect.poll(() => running).toContain("once");
  proxy.stall();
  const waiting = faultOf(files.makeFolder({ path: "waiting" }, { deadlineMs: 3000 }));
  const lost = faultOf(stream.next());
  proxy.cut();
  proxy.refuse();
  expect(await lost).toMatchObject({ code: "NODE_OFFLINE", details: { stage: "running" } });
  expect(await waiting).toMatchObject({ code: "NODE_OFFLINE", details: { stage: "queued" } });
  await clock.advance(3300);
  expect(await once).toMatchObject({ code: "OUTCOME_UNKNOWN", details: { stage: "dispatched" } });
  expect(running).not.toContain("waiting");
  await node[Symbol.asyncDispose]();
});

proves(
  "link.one-channel-one-connection",
  "after a restart of the gateway only a new dial connects, with the certificate of then",
  async () => {
    const authority = await makeAuthority();
    const shown: string[] = [];
    const identify = async (certificate: Uint8Array) => {
      shown.push(Buffer.from(certificate).toString("base64"));
      return await identifyByName(certificate);
    };
    const first = await openLinkGateway({ authority, identify });
    const { port } = first.server;
    await using proxy = await startFaultProxy({ targetPort: port });
    const services = [serve(Files, { stat: async ({ path }) => ({ entry: { path } }) })];
    let onDisk = await authority.client("devbox");
    let dials = 0;
    await using node = await openLinkNode(first, {
      addresses: [`127.0.0.1:${proxy.port}`],
      services,
      loadTls: () => {
        dials += 1;
        return onDisk;
      },
    });
    const files = (await whenLinked(first)).client(Files);
    // Several streams of the one channel are open when the gateway dies.
    await Promise.all(Array.from({ length: 20 }, (_, at) => files.stat({ path: String(at) })));
    expect(proxy.counts.connections).toBe(1);
    onDisk = await authority.client("devbox");
    await first.server[Symbol.asyncDispose]();
    await first[Symbol.asyncDispose]();
    await expect.poll(() => node.status().state).not.toBe("online");
    await using second = await openLinkGateway({ authority, identify, port });
    await whenLinked(second);
    await expect.poll(() => second.server.callCount).toBe(2);
    expect(second.server.connectionCount).toBe(1);
    expect(shown).toHaveLength(2);
    expect(shown[0]).not.toBe(shown[1]);
    // Every connection that reached a gateway was a dial of the link's own.
    expect(dials).toBe(2);
  },
);

proves(
  "link.frozen-gateway",
  "a node leaves a frozen gateway within 26 s and is back soon after its thaw",
  async () => {
    const clock = new ManualClock();
    await using gateway = await openLinkGateway({ heartbeat: { heartbeatMs: 10_000, deadAfterMs: 25_000 } });
    await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
    await using node = await openLinkNode(gateway, {
      addresses: [`127.0.0.1:${proxy.port}`],
      clock,
      random: () => 0.999,
    });
    await expect.poll(() => node.status().state).toBe("online");
    await expect.poll(() => gateway.server.callCount).toBe(2);
    proxy.stall();
    const frozenAt = clock.now();
    await clock.advance(24_900);
    expect(node.status().state).toBe("online");
    await clock.advance(1000);
    await expect.poll(() => node.status().state).not.toBe("online");
    expect(clock.now() - frozenAt).toBeLessThanOrEqual(26_000);
    expect(node.status().reason).toBe("heartbeat_missed");
    // Frozen for two more minutes: every dial is given up in time, and the next one begins.
    const dials = new Set<number>();
    for (let seconds = 0; seconds < 120; seconds += 1) {
      await clock.advance(1000);
      expect(node.status().state).toMatch(/connecting|waiting/);
      dials.add(node.status().lastAttemptMs);
    }
    expect(dials.size).toBeGreaterThan(3);
    proxy.mend();
    const thawedAt = clock.now();
    await expect
      .poll(async () => {
        await clock.advance(50);
        return node.status().state;
      })
      .toBe("online");
    expect(clock.now() - thawedAt).toBeLessThanOrEqual(31_000);
  },
);
