import { expect, test } from "vitest";
import type { Presence } from "../../../gateway/link/links.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { raceSignal } from "../../../shared/lifetime/clock.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { echoServices } from "../../contract/rpc/echo-services.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { proves } from "../../support/proves.ts";

const forever = (signal: AbortSignal): Promise<never> =>
  raceSignal(new Promise<never>(() => undefined), signal);

proves(
  "link.offline-fails-at-once",
  "a call to a node without a live link fails at once and never runs",
  async () => {
    await using gateway = await openLinkGateway();
    await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
    const ran: string[] = [];
    const services = [
      serve(Files, {
        stat: async ({ path }) => {
          ran.push(path);
          return {};
        },
        remove: async ({ path }) => {
          ran.push(path);
          return {};
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { addresses: [`127.0.0.1:${proxy.port}`], services });
    const link = await whenLinked(gateway);
    await link.client(Files).stat({ path: "linked" });
    proxy.refuse();
    proxy.cut();
    await expect.poll(() => gateway.host.links.find("devbox")).toBeUndefined();
    const offline = { code: "NODE_OFFLINE", retryable: true };
    for (const call of [
      () => link.client(Files).stat({ path: "offline" }),
      () => link.client(Files).remove({ path: "offline" }),
      async () => gateway.host.links.get("devbox"),
      async () => gateway.host.links.get("never-seen"),
    ]) {
      const begunAt = performance.now();
      expect(await faultOf(call())).toMatchObject(offline);
      expect(performance.now() - begunAt).toBeLessThan(1000);
    }
    await proxy.accept();
    const again = await whenLinked(gateway);
    await again.client(Files).stat({ path: "back" });
    expect(ran).toEqual(["linked", "back"]);
  },
);

proves("link.cut-idempotent", "an idempotent call that was cut at 40 % gives one whole answer", async () => {
  await using gateway = await openLinkGateway();
  await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
  const cut = Promise.withResolvers<void>();
  const chunkCount = 50;
  const runs: number[] = [];
  const services = [
    serve(Files, {
      read: async function* ({ path }, { signal }) {
        const run = runs.push(0) - 1;
        for (let at = 0; at < chunkCount; at += 1) {
          runs[run] = at;
          if (path === "cut" && run === 1 && at === 30) await raceSignal(cut.promise, signal);
          yield { part: { case: "chunk", value: Buffer.alloc(40_000, at) } };
        }
      },
    }),
  ];
  await using _node = await openLinkNode(gateway, { addresses: [`127.0.0.1:${proxy.port}`], services });
  const files = (await whenLinked(gateway)).client(Files);
  const uncut = await Array.fromAsync(files.read({ path: "uncut" }));
  expect(uncut).toHaveLength(chunkCount);
  const received: typeof uncut = [];
  for await (const message of files.read({ path: "cut" })) {
    received.push(message);
    if (received.length === 20) proxy.cut();
  }
  expect(received).toEqual(uncut);
  expect(runs).toHaveLength(3);
});

test("an idempotent unary call that was cut is repeated after the reconnect", async () => {
  await using gateway = await openLinkGateway();
  await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
  let runs = 0;
  const services = [
    serve(Files, {
      stat: async (_request, { signal }) => {
        runs += 1;
        if (runs === 1) await forever(signal);
        return { entry: { path: "answered" } };
      },
    }),
  ];
  await using _node = await openLinkNode(gateway, { addresses: [`127.0.0.1:${proxy.port}`], services });
  const files = (await whenLinked(gateway)).client(Files);
  const answer = files.stat({});
  await expect.poll(() => runs).toBe(1);
  proxy.cut();
  expect((await answer).entry?.path).toBe("answered");
});

proves(
  "link.cut-at-most-once",
  "a call that runs once has no effect before dispatch and one effect after it",
  async () => {
    await using gateway = await openLinkGateway();
    await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
    const effects: string[] = [];
    const gates = new Map<string, PromiseWithResolvers<void>>();
    const gateOf = (path: string): PromiseWithResolvers<void> => {
      const gate = gates.get(path) ?? Promise.withResolvers<void>();
      gates.set(path, gate);
      return gate;
    };
    const services = [
      serve(Files, {
        stat: async (_request, { signal }) => await forever(signal),
        remove: async ({ path }, { signal }) => {
          if (path === "running") await raceSignal(gateOf(path).promise, signal);
          effects.push(path);
          if (path !== "running") await raceSignal(gateOf(path).promise, signal);
          if (path === "bad") throw new Fault("NOT_EMPTY", "it has entries", { details: { path } });
          return { removed: BigInt(effects.length) };
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { addresses: [`127.0.0.1:${proxy.port}`], services });
    const link = await whenLinked(gateway);
    const files = link.client(Files);

    // Before dispatch: the one stream is taken, and nothing that asks for another gets through.
    await expect.poll(() => gateway.server.callCount).toBe(2);
    const busy = faultOf(files.stat({}, { deadlineMs: 5000 }));
    proxy.stall();
    const queued = faultOf(files.remove({ path: "queued" }));
    proxy.cut();
    proxy.mend();
    expect(await queued).toMatchObject({ code: "NODE_OFFLINE", details: { stage: "queued" } });
    await whenLinked(gateway);

    // After dispatch, before the effect.
    const running = gateway.host.links.get("devbox").client(Files).remove({ path: "running" });
    await expect.poll(() => gates.has("running")).toBe(true);
    proxy.cut();
    await expect.poll(() => gateway.host.links.find("devbox")).toBeUndefined();
    gateOf("running").resolve();
    expect((await running).removed).toBe(1n);

    // After the effect, before the answer is through; success and failure.
    for (const path of ["done", "bad"]) {
      const next = await whenLinked(gateway);
      const ended = next.client(Files).remove({ path });
      await expect.poll(() => effects).toContain(path);
      proxy.stall();
      gateOf(path).resolve();
      proxy.cut();
      proxy.mend();
      if (path === "done") expect((await ended).removed).toBe(2n);
      else expect(await faultOf(ended)).toMatchObject({ code: "NOT_EMPTY", details: { path: "bad" } });
    }
    expect(effects).toEqual(["running", "done", "bad"]);
    expect(await busy).toMatchObject({ code: "DEADLINE_EXCEEDED" });
  },
);

test("the outcome of a call that runs once is unknown when its node is another process now", async () => {
  await using gateway = await openLinkGateway();
  const services = [serve(Files, { remove: async (_request, { signal }) => await forever(signal) })];
  await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
  const addresses = [`127.0.0.1:${proxy.port}`];
  const first = await openLinkNode(gateway, { services, bootId: "first", addresses });
  const link = await whenLinked(gateway);
  await expect.poll(() => gateway.server.callCount).toBe(2);
  const call = faultOf(link.client(Files).remove({}, { callId: "call-1" }));
  await expect.poll(() => gateway.server.callCount).toBe(2);
  // As if it had ended: it neither answers nor comes back.
  proxy.refuse();
  proxy.cut();
  await using _second = await openLinkNode(gateway, { services: echoServices(), bootId: "second" });
  expect(await call).toMatchObject({
    code: "OUTCOME_UNKNOWN",
    details: { callId: "call-1", stage: expect.any(String) },
  });
  await first[Symbol.asyncDispose]();
});

proves(
  "link.node-answers-deadline",
  "a handler that never returns is ended by the node at the deadline",
  async () => {
    await using gateway = await openLinkGateway();
    const signals: AbortSignal[] = [];
    const services = [
      serve(Files, {
        stat: async (_request, { signal }) => {
          signals.push(signal);
          return await new Promise<never>(() => undefined);
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services });
    const files = (await whenLinked(gateway)).client(Files);
    const begunAt = performance.now();
    const fault = await faultOf(files.stat({}, { deadlineMs: 1000 }));
    const tookMs = performance.now() - begunAt;
    expect(fault).toMatchObject({ code: "DEADLINE_EXCEEDED", details: { stage: "running" } });
    expect(tookMs).toBeGreaterThan(990);
    expect(tookMs).toBeLessThan(1500);
    expect(signals[0]?.aborted).toBe(true);
    expect(signals[0]?.reason).toMatchObject({ code: "DEADLINE_EXCEEDED" });
  },
);

proves(
  "link.late-goodbye-harmless",
  "the late close of an old connection leaves the new one as it is",
  async () => {
    await using gateway = await openLinkGateway();
    await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
    const old = await openLinkNode(gateway, {
      addresses: [`127.0.0.1:${proxy.port}`],
      services: echoServices(),
      bootId: "boot",
    });
    const before = await whenLinked(gateway);
    // From here on the gateway hears nothing of the old connection, not even its end.
    proxy.swallow("up");
    await old[Symbol.asyncDispose]();
    const release = Promise.withResolvers<void>();
    const services = [
      serve(Files, {
        stat: async () => {
          await release.promise;
          return { entry: { path: "of the new" } };
        },
      }),
    ];
    const seen: Presence[] = [];
    const stop = new AbortController();
    const watching = (async () => {
      for await (const presence of gateway.host.links.changes({ signal: stop.signal })) seen.push(presence);
    })();
    await using _new = await openLinkNode(gateway, { services, bootId: "boot" });
    await expect.poll(() => gateway.host.links.find("devbox")?.generation).toBeGreaterThan(before.generation);
    const after = gateway.host.links.get("devbox");
    const call = after.client(Files).stat({});
    proxy.cut();
    await expect.poll(() => gateway.server.connectionCount).toBe(1);
    expect(gateway.host.links.presence("devbox").state).toBe("online");
    expect(gateway.host.links.find("devbox")).toBe(after);
    release.resolve();
    expect((await call).entry?.path).toBe("of the new");
    stop.abort();
    await watching;
    expect(new Set(seen.map(({ state }) => state))).toEqual(new Set(["online"]));
    expect(seen.at(-1)?.generation).toBe(after.generation);
  },
);
