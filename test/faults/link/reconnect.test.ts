import { expect, test } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock, type Clock } from "../../../shared/lifetime/clock.ts";
import { noDeadline } from "../../../shared/rpc/deadline.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { echoServices } from "../../contract/rpc/echo-services.ts";
import { identifyByName, openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";

proves(
  "link.second-address-used",
  "a node whose first address answers nothing links through the second",
  async () => {
    const clock = new ManualClock();
    await using gateway = await openLinkGateway();
    await using dead = await startFaultProxy({ targetPort: gateway.server.port });
    dead.stall();
    const begunAt = clock.now();
    await using node = await openLinkNode(gateway, {
      addresses: [`127.0.0.1:${dead.port}`, gateway.server.address],
      clock,
    });
    await expect.poll(() => dead.counts.open).toBe(1);
    await clock.advance(20_000);
    await expect.poll(() => node.status().state).toBe("online");
    expect(clock.now() - begunAt).toBeLessThanOrEqual(21_000);
    expect(node.status().address).toBe(gateway.server.address);
  },
);

proves(
  "link.never-gives-up",
  "after 8 h of failures the node still dials, and is back soon after the path is",
  { timeout: 120_000 },
  async () => {
    const clock = new ManualClock();
    await using gateway = await openLinkGateway();
    await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
    const dialledAt: number[] = [];
    await using node = await openLinkNode(gateway, {
      addresses: [`127.0.0.1:${proxy.port}`],
      clock,
      random: () => 0.999,
    });
    await expect.poll(() => node.status().state).toBe("online");
    proxy.refuse();
    proxy.cut();
    const endsAt = clock.now() + 8 * 3_600_000;
    while (clock.now() < endsAt) {
      // Each dial fails over the real wire; then the clock goes on.
      await expect.poll(() => node.status().state, { interval: 1 }).toBe("waiting");
      const { lastAttemptMs, nextAttemptMs } = node.status();
      dialledAt.push(lastAttemptMs);
      // Refused at first, later taken and dropped.
      if (dialledAt.length === 500) {
        proxy.retarget(1);
        await proxy.accept();
      }
      await clock.advance(Math.max(1, nextAttemptMs - clock.now()));
    }
    const gaps = dialledAt.slice(1).map((at, index) => at - (dialledAt[index] ?? 0));
    expect(dialledAt.length).toBeGreaterThan(900);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(50_000);
    await expect.poll(() => node.status().state, { interval: 1 }).toBe("waiting");
    proxy.retarget(gateway.server.port);
    const backAt = clock.now();
    await clock.advance(node.status().nextAttemptMs - clock.now());
    await expect.poll(() => node.status().state).toBe("online");
    expect(clock.now() - backAt).toBeLessThanOrEqual(51_000);
  },
);

proves(
  "link.wake-dials-at-once",
  "after a jump of the clock the node tests its link or dials at once",
  async () => {
    let offsetMs = 0;
    const clock: Clock = { ...systemClock, now: () => Date.now() + offsetMs };
    await using gateway = await openLinkGateway();
    await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
    await using node = await openLinkNode(gateway, {
      addresses: [`127.0.0.1:${proxy.port}`],
      clock,
      random: () => 0.999,
    });
    await whenLinked(gateway);
    await expect.poll(() => node.status().state).toBe("online");
    for (const jumpMs of [60_000, 30 * 60_000, 8 * 3_600_000]) {
      // Linked: the link is tested, and one that lives stays.
      const { generation } = node.status();
      await expect.poll(() => gateway.server.callCount).toBe(2);
      const bytes = proxy.counts.up.bytes;
      offsetMs += jumpMs;
      await expect.poll(() => proxy.counts.up.bytes, { timeout: 1000 }).toBeGreaterThan(bytes);
      expect(node.status()).toMatchObject({ state: "online", generation });
      // Between two dials: whatever wait was pending is over.
      proxy.refuse();
      proxy.cut();
      await expect.poll(() => node.status().nextAttemptMs - clock.now()).toBeGreaterThan(1100);
      const { attempts } = node.status();
      offsetMs += jumpMs;
      await expect.poll(() => node.status().attempts, { timeout: 1000 }).toBeGreaterThan(attempts);
      await proxy.accept();
      offsetMs += 60_000;
      await expect.poll(() => node.status().state).toBe("online");
    }
  },
);

proves(
  "link.admission-limited",
  "a node beyond the rate waits as long as it was told to and is then linked",
  async () => {
    const clock = new ManualClock();
    await using gateway = await openLinkGateway({ admission: { perSecond: 0.1, burstCount: 1 }, clock });
    const nodeClock = new ManualClock();
    await using _first = await openLinkNode(gateway, { name: "first" });
    await whenLinked(gateway, "first");
    const faults: Fault[] = [];
    await using second = await openLinkNode(gateway, {
      name: "second",
      clock: nodeClock,
      random: () => 0,
      onFault: (error) => {
        if (error instanceof Fault) faults.push(error);
      },
    });
    await expect.poll(() => second.status().state).toBe("waiting");
    expect(faults[0]).toMatchObject({ code: "RATE_LIMITED", details: { retryAfterMs: 10_000 } });
    expect(second.status()).toMatchObject({ reason: "rate_limited", attempts: 1 });
    await nodeClock.advance(9_900);
    await clock.advance(10_000);
    expect(second.status()).toMatchObject({ state: "waiting", attempts: 1 });
    await nodeClock.advance(100);
    await expect.poll(() => second.status().state).toBe("online");
  },
);

proves(
  "link.hung-call-blocks-no-reconnect",
  "neither a handler nor a callback that hangs delays the reconnect",
  async () => {
    const never = new Promise<never>(() => undefined);
    const measure = async (hangs: boolean): Promise<number> => {
      await using gateway = await openLinkGateway({
        readers: [
          { kind: 3, read: async () => await (hangs ? never : undefined), withdraw: () => undefined },
        ],
      });
      await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
      const services = [
        serve(Files, {
          stat: async ({ path }) => (path === "hang" ? await never : { entry: { path } }),
          remove: async () => await never,
        }),
      ];
      await using _node = await openLinkNode(gateway, {
        addresses: [`127.0.0.1:${proxy.port}`],
        services,
        random: () => 0.5,
      });
      const link = await whenLinked(gateway);
      const hung = hangs
        ? [link.client(Files).stat({ path: "hang" }), link.client(Files).remove({ path: "hang" })].map(
            faultOf,
          )
        : [];
      await expect.poll(() => gateway.server.callCount).toBeGreaterThan(1);
      const { generation } = link;
      const begunAt = performance.now();
      proxy.cut();
      await expect.poll(() => gateway.host.links.find("devbox")?.generation ?? 0).toBeGreaterThan(generation);
      const tookMs = performance.now() - begunAt;
      const again = gateway.host.links.get("devbox").client(Files);
      expect((await again.stat({ path: "answered" })).entry?.path).toBe("answered");
      void Promise.all(hung).catch(() => undefined);
      return tookMs;
    };
    await measure(false);
    const without = await measure(false);
    const withHung = await measure(true);
    expect(withHung).toBeLessThan(2 * Math.max(without, 500));
  },
);

proves(
  "link.new-process-not-resumed",
  "a new process takes over at once, and its predecessor's streams end",
  async () => {
    await using gateway = await openLinkGateway();
    await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
    const never = new Promise<never>(() => undefined);
    const hanging = [
      serve(Files, {
        read: async function* () {
          yield {};
          await never;
        },
      }),
    ];
    const old = await openLinkNode(gateway, {
      addresses: [`127.0.0.1:${proxy.port}`],
      services: hanging,
      bootId: "old",
    });
    const before = await whenLinked(gateway);
    const stream = before.client(Files).read({}, { deadlineMs: noDeadline })[Symbol.asyncIterator]();
    await stream.next();
    // The old connection is half open: nothing of it is heard any more, and its end least of all.
    proxy.swallow("up");
    const begunAt = performance.now();
    const ended = faultOf(stream.next());
    await using _new = await openLinkNode(gateway, { services: echoServices(), bootId: "new" });
    await expect.poll(() => gateway.host.links.presence("devbox").hello?.bootId).toBe("new");
    expect(performance.now() - begunAt).toBeLessThan(5000);
    expect(await ended).toMatchObject({ code: "NODE_OFFLINE" });
    await old[Symbol.asyncDispose]();

    // The same process: what it answers goes on after the reconnect.
    await using line = await startFaultProxy({ targetPort: gateway.server.port });
    const same = { name: "same", addresses: [`127.0.0.1:${line.port}`], services: echoServices() };
    await using _same = await openLinkNode(gateway, same);
    const resumed: unknown[] = [];
    for await (const message of (await whenLinked(gateway, "same")).client(Files).read({ length: 2000n })) {
      resumed.push(message);
      if (resumed.length === 100) line.cut();
    }
    expect(resumed).toHaveLength(2002);
  },
);

proves(
  "link.restart-storm",
  "a gateway restarted 10 times in 5 s has its node back, with one line an attempt",
  { timeout: 60_000 },
  async () => {
    const first = await openLinkGateway();
    const { authority, server } = first;
    await using proxy = await startFaultProxy({ targetPort: server.port });
    const lines: string[] = [];
    let attempts = 0;
    const tls = await authority.client("devbox");
    await using node = await openLinkNode(first, {
      addresses: [`127.0.0.1:${proxy.port}`],
      loadTls: () => tls,
      onFault: (_error, about) => void lines.push(about),
    });
    const stop = new AbortController();
    const counting = (async () => {
      let last = 0;
      for await (const { lastAttemptMs } of node.changes({ signal: stop.signal })) {
        if (lastAttemptMs !== last) attempts += 1;
        last = lastAttemptMs;
      }
    })();
    await whenLinked(first);
    await first[Symbol.asyncDispose]();
    for (let restart = 0; restart < 10; restart += 1) {
      // Every other time between TCP accept and handshake: the proxy takes the connection and forwards nothing.
      if (restart % 2 === 1) proxy.stall();
      await systemClock.sleep(100);
      const gateway = await openLinkGateway({ authority });
      proxy.retarget(gateway.server.port);
      await systemClock.sleep(Math.random() * 300);
      proxy.cut();
      proxy.mend();
      await gateway[Symbol.asyncDispose]();
    }
    await using last = await openLinkGateway({ authority });
    proxy.retarget(last.server.port);
    await expect.poll(() => last.host.links.presence("devbox").state, { timeout: 31_000 }).toBe("online");
    stop.abort();
    await counting;
    expect(lines.length).toBeLessThanOrEqual(attempts + 1);
  },
);

proves(
  "link.refused-identity-closes-link",
  "a link whose enrolment ended is closed with the identity code, without a loop",
  async () => {
    let revoked = false;
    let judged = 0;
    await using gateway = await openLinkGateway({
      identify: async (certificate) => {
        judged += 1;
        if (revoked) throw new Fault("IDENTITY_REVOKED", "the node was revoked");
        return await identifyByName(certificate);
      },
    });
    const node = await openLinkNode(gateway, { services: echoServices() });
    const link = await whenLinked(gateway);
    const running = faultOf(link.client(Files).stat({ path: "hang" }));
    await expect.poll(() => gateway.server.callCount).toBe(2);
    revoked = true;
    await gateway.host.links.end("devbox", new Fault("IDENTITY_REVOKED", "the node was revoked"));
    expect(await running).toMatchObject({ code: "IDENTITY_REVOKED" });
    expect(await node.closed).toMatchObject({ code: "IDENTITY_REVOKED" });
    expect(node.status()).toMatchObject({
      state: "stopped",
      reason: "identity_revoked",
      nextStep: "fairlead node join CODE",
    });
    expect(gateway.host.links.presence("devbox").state).toBe("revoked");
    expect(judged).toBeLessThanOrEqual(2);
    await expect.poll(() => gateway.server.connectionCount).toBe(0);

    // Another process with that identity is refused once, and stops too.
    const again = await openLinkNode(gateway, {});
    expect(await again.closed).toMatchObject({ code: "IDENTITY_REVOKED" });
    expect(judged).toBeLessThanOrEqual(3);
    await node[Symbol.asyncDispose]();
    await again[Symbol.asyncDispose]();
  },
);

test("a node whose gateway refused it sees that it listens again, long before its wait is over", async () => {
  await using gateway = await openLinkGateway();
  await using line = await startFaultProxy({ targetPort: gateway.server.port });
  await using node = await openLinkNode(gateway, {
    addresses: [`127.0.0.1:${line.port}`],
    random: () => 0.999,
  });
  await whenLinked(gateway);
  line.refuse();
  line.cut();
  // The waits are as long as they can be: the sixth is more than six seconds.
  const restMs = (): number => node.status().nextAttemptMs - Date.now();
  await expect
    .poll(() => node.status().state === "waiting" && restMs() > 5000, { timeout: 20_000 })
    .toBe(true);
  const { reason, nextAttemptMs } = node.status();
  expect(reason).toBe("connection_refused");
  await line.accept();
  await expect.poll(() => node.status().state, { timeout: 20_000, interval: 20 }).toBe("online");
  expect(Date.now()).toBeLessThan(nextAttemptMs);
});
