import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { raceSignal } from "../../../shared/lifetime/clock.ts";
import { noDeadline } from "../../../shared/rpc/deadline.ts";
import { serve, type CallContext } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";

proves("link.deadline-carried-once", "a call of 60 s that is answered after 35 s succeeds", async () => {
  const clock = new ManualClock();
  await using gateway = await openLinkGateway({ clock });
  const begun: CallContext[] = [];
  const services = [
    serve(Files, {
      stat: async (_request, context) => {
        begun.push(context);
        await clock.sleep(35_000, { signal: context.signal });
        return { entry: { path: "late but well" } };
      },
    }),
  ];
  await using node = await openLinkNode(gateway, { services, clock });
  const link = await whenLinked(gateway);
  const answer = link.client(Files).stat({}, { deadlineMs: 60_000 });
  await expect.poll(() => begun.length).toBe(1);
  expect(begun[0]?.remainingMs).toBe(60_000);
  for (let seconds = 0; seconds < 35; seconds += 1) {
    await clock.advance(1000);
    // The heartbeat goes over the real wire.
    await expect
      .poll(() => clock.now() - gateway.host.links.presence("devbox").lastSeenMs)
      .toBeLessThan(11_000);
  }
  await clock.advance(1);
  expect((await answer).entry?.path).toBe("late but well");
  expect(node.status().state).toBe("online");

  const never = faultOf(link.client(Files).stat({}, { deadlineMs: 30_000 }));
  await expect.poll(() => begun.length).toBe(2);
  await clock.advance(29_999);
  expect(begun[1]?.signal.aborted).toBe(false);
  await clock.advance(1);
  expect(await never).toMatchObject({ code: "DEADLINE_EXCEEDED", details: { stage: "running" } });
});

proves(
  "link.cancel-reaches-node",
  "cancelling, leaving a stream, or cancelling an upload aborts the node's work",
  async () => {
    await using gateway = await openLinkGateway();
    const unhandled: unknown[] = [];
    const onUnhandled = (error: unknown): void => void unhandled.push(error);
    process.on("unhandledRejection", onUnhandled);
    const aborted: { what: string; reason: unknown }[] = [];
    const watch = (what: string, { signal }: CallContext): void => {
      signal.addEventListener("abort", () => void aborted.push({ what, reason: signal.reason }));
    };
    const begun: string[] = [];
    const forever = (signal: AbortSignal): Promise<never> =>
      raceSignal(new Promise<never>(() => undefined), signal);
    const services = [
      serve(Files, {
        stat: async (_request, context) => {
          watch("unary", context);
          begun.push("unary");
          return await forever(context.signal);
        },
        read: async function* (_request, context) {
          watch("stream", context);
          for (let at = 0; ; at += 1) {
            yield { part: { case: "chunk", value: Buffer.alloc(10, at) } };
            await raceSignal(setImmediate(), context.signal);
          }
        },
        write: async (_requests, context) => {
          watch("upload", context);
          begun.push("upload");
          return await forever(context.signal);
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services });
    const files = (await whenLinked(gateway)).client(Files);

    const stop = new AbortController();
    const unary = faultOf(files.stat({}, { signal: stop.signal }));
    await expect.poll(() => begun).toContain("unary");
    stop.abort(new Fault("CANCELLED", "the session ended", { details: { reason: "session_ended" } }));
    expect(await unary).toMatchObject({ code: "CANCELLED", details: { reason: "session_ended" } });
    await expect.poll(() => aborted.map(({ what }) => what), { timeout: 1000 }).toContain("unary");
    expect(aborted[0]?.reason).toMatchObject({ code: "CANCELLED", details: { reason: "session_ended" } });

    let items = 0;
    for await (const _item of files.read({}, { deadlineMs: noDeadline })) {
      items += 1;
      if (items === 3) break;
    }
    await expect.poll(() => aborted.map(({ what }) => what), { timeout: 1000 }).toContain("stream");

    const stopUpload = new AbortController();
    async function* endless() {
      for (;;) yield { part: { case: "chunk" as const, value: Buffer.alloc(64 * 1024) } };
    }
    const upload = faultOf(files.write(endless(), { signal: stopUpload.signal }));
    await expect.poll(() => begun).toContain("upload");
    stopUpload.abort(new Fault("CANCELLED", "not needed"));
    expect(await upload).toMatchObject({ code: "CANCELLED" });
    await expect.poll(() => aborted.map(({ what }) => what), { timeout: 1000 }).toContain("upload");
    await setImmediate();
    process.off("unhandledRejection", onUnhandled);
    expect(unhandled).toEqual([]);
  },
);

proves(
  "link.same-key-same-answer",
  "a call that is repeated with its key gets the first outcome and runs once",
  async () => {
    const clock = new ManualClock();
    // The node's clock is moved by minutes at once: that is no silence of the gateway.
    await using gateway = await openLinkGateway({
      heartbeat: { heartbeatMs: 10_000, deadAfterMs: 3_600_000 },
    });
    const ran: string[] = [];
    const services = [
      serve(Files, {
        remove: async ({ path }) => {
          ran.push(path);
          if (path === "bad")
            throw new Fault("NOT_EMPTY", `${path} ${ran.length}`, { details: { count: ran.length } });
          return { removed: BigInt(ran.length) };
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services, clock });
    const files = (await whenLinked(gateway)).client(Files);
    const good = await files.remove({ path: "good" }, { idempotencyKey: "k1" });
    const bad = await faultOf(files.remove({ path: "bad" }, { idempotencyKey: "k2" }));
    await clock.advance(9 * 60_000);
    expect(await files.remove({ path: "good" }, { idempotencyKey: "k1" })).toEqual(good);
    const { code, message, details } = bad;
    expect(await faultOf(files.remove({ path: "bad" }, { idempotencyKey: "k2" }))).toMatchObject({
      code,
      message,
      details,
    });
    expect(ran).toEqual(["good", "bad"]);
    await clock.advance(60_001 + 60_000);
    await files.remove({ path: "good" }, { idempotencyKey: "k1" });
    expect(ran).toEqual(["good", "bad", "good"]);
  },
);

proves(
  "link.trace-crosses",
  "the caller's trace is the parent of the node's part, and a bad one starts another",
  async () => {
    await using gateway = await openLinkGateway();
    const seen: (string | undefined)[] = [];
    const services = [
      serve(Files, {
        stat: async (_request, { traceparent }) => {
          seen.push(traceparent);
          return {};
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services });
    const files = (await whenLinked(gateway)).client(Files);
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    await files.stat({}, { traceparent });
    for (const bad of ["", "00-zz", `${traceparent}-${"x".repeat(200)}`, "not a trace at all"]) {
      await files.stat({}, { traceparent: bad });
    }
    expect(seen).toEqual([traceparent, undefined, undefined, undefined, undefined]);
  },
);

test("1,000 calls, a third of them cancelled, leave one stream and no work", async () => {
  await using gateway = await openLinkGateway();
  let running = 0;
  const services = [
    serve(Files, {
      stat: async ({ path }, { signal }) => {
        running += 1;
        try {
          if (path === "hang") await raceSignal(new Promise<never>(() => undefined), signal);
          return { entry: { path } };
        } finally {
          running -= 1;
        }
      },
    }),
  ];
  await using _node = await openLinkNode(gateway, { services });
  const link = await whenLinked(gateway);
  const files = link.client(Files);
  const calls = Array.from({ length: 1000 }, async (_, at) => {
    if (at % 3 > 0) return (await files.stat({ path: String(at) })).entry?.path;
    const fault = await faultOf(files.stat({ path: "hang" }, { signal: AbortSignal.timeout(50 + at) }));
    return fault.code;
  });
  const ended = await Promise.all(calls);
  expect(ended.filter((end) => end === "DEADLINE_EXCEEDED" || end === "CANCELLED")).toHaveLength(334);
  await expect.poll(() => running).toBe(0);
  expect(gateway.host.links.find("devbox")).toBe(link);
  expect(gateway.server.callCount).toBeLessThanOrEqual(65);
  expect((await files.stat({ path: "after" })).entry?.path).toBe("after");
});
