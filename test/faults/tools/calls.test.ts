import { getEventListeners } from "node:events";
import { describe, expect, test } from "vitest";
import { createApprovals } from "../../../gateway/approvals/approvals.ts";
import { openStore } from "../../../gateway/store/store.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { faultOf } from "../../support/fault-of.ts";
import { findProcesses } from "../../support/find-processes.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";
import { openSessionKit, type SessionKit } from "../../support/session-kit.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { callTool } from "../../support/tool-calls.ts";

const operator = { agent: "operator" };
const question = { title: "t", detail: "{}", agent: "coder", rule: "profile.work", digest: digestOf("x") };

/** A command that says when it runs, and whose tree does not go by itself. */
const stubborn = (word: string): string => `echo up; (sleep ${word} &) ; sleep ${word}`;

proves(
  "tools.abort-before-and-during",
  "an aborted call never begins, or ends with its process tree and CANCELLED at once, whatever the reason is",
  async () => {
    await using kit = await openSessionKit();
    const node = await kit.addNode();
    for (const reason of [new Error("e"), "text", 7, { odd: true }, undefined]) {
      const early = callTool(kit.tools, operator, {
        name: "devbox__exec",
        arguments: { command: "touch started" },
        signal: AbortSignal.abort(reason),
      });
      expect((await faultOf(early)).code).toBe("CANCELLED");
      const word = `7${process.hrtime.bigint()}`;
      const controller = new AbortController();
      let abortedAt = 0;
      const running = callTool(kit.tools, operator, {
        name: "devbox__exec",
        arguments: { command: stubborn(word) },
        signal: controller.signal,
        onOutput: () => {
          abortedAt = performance.now();
          controller.abort(reason);
        },
      });
      expect((await faultOf(running)).code).toBe("CANCELLED");
      expect(performance.now() - abortedAt).toBeLessThan(1_000);
      await expect.poll(() => findProcesses(word)).toEqual([]);
    }
    expect(await node.workspace.has("started")).toBe(false);
  },
);

test("closing a session ends its calls with CANCELLED, and leaves those of others", async () => {
  await using kit = await openSessionKit();
  await kit.addNode();
  const open = async (): Promise<string> =>
    (await kit.sessions.open({ agent: "coder", workspace: "devbox:/app" })).id;
  const [first, second] = [await open(), await open()];
  const start = async (id: string): Promise<{ ended: Promise<unknown>; word: string }> => {
    const up = Promise.withResolvers<void>();
    const word = `8${process.hrtime.bigint()}`;
    const ended = callTool(kit.tools, await kit.sessions.caller(id), {
      name: "exec",
      arguments: { command: `echo up; sleep 3; echo ${word}` },
      onOutput: () => up.resolve(),
    });
    ended.catch(() => undefined);
    await up.promise;
    return { ended, word };
  };
  const [one, two] = [await start(first), await start(second)];
  await kit.sessions.close(first);
  expect(await faultOf(one.ended)).toMatchObject({
    code: "CANCELLED",
    details: { reason: "session_closed" },
  });
  expect((await faultOf(kit.sessions.caller(first))).code).toBe("NOT_FOUND");
  expect(await two.ended).toMatchObject({ details: { exitCode: 0 } });
  expect(await kit.sessions.close(first)).toMatchObject({ state: "closed", reason: "closed_by_request" });
});

test("a node that goes takes its tools along; the bound workspace is unavailable and nothing else steps in", async () => {
  await using kit = await openSessionKit();
  const node = await kit.addNode();
  const { id } = await kit.sessions.open({ agent: "coder", workspace: "devbox:/app" });
  const caller = await kit.sessions.caller(id);
  const up = Promise.withResolvers<void>();
  const running = callTool(kit.tools, caller, {
    name: "exec",
    arguments: { command: "echo up; sleep 60" },
    onOutput: () => up.resolve(),
  });
  running.catch(() => undefined);
  await up.promise;
  node.disconnect();
  expect((await faultOf(running)).code).toMatch(
    /^(?:WORKSPACE_ACCESS_UNAVAILABLE|NODE_OFFLINE|OUTCOME_UNKNOWN)$/,
  );
  const names = (await kit.tools.surface(caller)).tools.map(({ name }) => name);
  expect(names).toEqual(["exec", "list", "memory_get", "memory_search", "read", "write"]);
  const again = await faultOf(callTool(kit.tools, caller, { name: "exec", arguments: { command: "x" } }));
  expect(again).toMatchObject({ code: "WORKSPACE_ACCESS_UNAVAILABLE", details: { reason: "node_offline" } });
  const prefixed = await faultOf(
    callTool(kit.tools, caller, { name: "devbox__exec", arguments: { command: "x" } }),
  );
  expect(prefixed).toMatchObject({ code: "NODE_OFFLINE", details: { node: "devbox", state: "offline" } });
  expect(await kit.sessions.get(id)).toMatchObject({ state: "waiting_for_node", reason: "link_lost" });
  const refused = await faultOf(kit.sessions.open({ agent: "coder", workspace: "devbox:/app" }));
  expect(refused.code).toBe("WORKSPACE_ACCESS_UNAVAILABLE");
  await node.connect();
  const back = await callTool(kit.tools, caller, { name: "exec", arguments: { command: "echo back" } });
  expect(back.content).toEqual([{ type: "text", text: "back\n" }]);
});

describe("a person who is asked", () => {
  const ask = (kit: SessionKit, signal: AbortSignal): Promise<unknown> =>
    callTool(kit.tools, operator, { name: "devbox__exec", arguments: { command: "touch done" }, signal });
  const waiting = async (kit: SessionKit): Promise<string> => {
    await expect.poll(async () => (await kit.approvals.list()).length).toBe(1);
    return (await kit.approvals.list())[0]?.id ?? "";
  };

  proves(
    "policy.approval-abort",
    "is not asked any more once the call is aborted, for whatever reason, and a late yes runs nothing",
    async () => {
      await using kit = await openSessionKit();
      const node = await kit.addNode({ profile: "work" });
      for (const reason of [new Error("e"), "text", 7, undefined]) {
        const controller = new AbortController();
        const asking = faultOf(ask(kit, controller.signal));
        const id = await waiting(kit);
        const abortedAt = performance.now();
        controller.abort(reason);
        expect((await asking).code).toBe("CANCELLED");
        expect(performance.now() - abortedAt).toBeLessThan(1_000);
        await expect
          .poll(async () => (await kit.approvals.list({ all: true })).at(-1)?.state)
          .toBe("cancelled");
        expect((await faultOf(kit.approvals.decide(id, { allow: true, by: "local" }))).code).toBe(
          "APPROVAL_EXPIRED",
        );
      }
      expect(await node.workspace.has("done")).toBe(false);
      const kept = new AbortController();
      const asking = faultOf(ask(kit, kept.signal));
      await kit.approvals.decide(await waiting(kit), { allow: false, by: "local" });
      await asking;
      expect(getEventListeners(kept.signal, "abort")).toEqual([]);
    },
  );

  test("who allows it lets exactly that call run", async () => {
    await using kit = await openSessionKit();
    const node = await kit.addNode({ profile: "work" });
    const asking = ask(kit, new AbortController().signal);
    await kit.approvals.decide(await waiting(kit), { allow: true, by: "local" });
    await asking;
    expect(await node.workspace.has("done")).toBe(true);
    expect(await kit.approvals.list({ all: true })).toMatchObject([
      { state: "used", agent: "operator", nodeId: "devbox" },
    ]);
  });

  test("is asked for a machine that wants it, whatever the profile is", async () => {
    await using kit = await openSessionKit();
    const node = await kit.addNode({ profile: "full", exec: "ask" });
    const asking = ask(kit, new AbortController().signal);
    await kit.approvals.decide(await waiting(kit), { allow: true, by: "local" });
    await asking;
    expect(await node.workspace.has("done")).toBe(true);
  });

  proves(
    "policy.approval-timeout",
    "has 120 s unless the request says otherwise, 10 min at most, whatever the deadline of the call is",
    async () => {
      await using folder = await makeTempFolder();
      const clock = new ManualClock();
      await using store = await openStore({ dir: folder.join("gateway"), clock });
      const approvals = createApprovals({ store, clock });
      const { signal } = new AbortController();
      for (const [timeoutMs, waitsMs] of [
        [undefined, 120_000],
        [5_000, 5_000],
        [600_000, 600_000],
        [3_600_000, 600_000],
      ] as const) {
        let ended = false;
        const asking = faultOf(
          approvals.ask(question, { signal, ...(timeoutMs === undefined ? {} : { timeoutMs }) }),
        ).finally(() => {
          ended = true;
        });
        await expect.poll(() => clock.sleepers).toBe(1);
        await clock.advance(waitsMs - 1);
        await store.db.selectFrom("approvals").selectAll().execute();
        expect(ended).toBe(false);
        await clock.advance(1);
        expect((await asking).code).toBe("APPROVAL_EXPIRED");
      }
      await using kit = await openSessionKit();
      await kit.addNode({ profile: "work" });
      const call = callTool(kit.tools, operator, {
        name: "devbox__exec",
        arguments: { command: "echo ran" },
        deadlineMs: 1_500,
      });
      const askedAt = performance.now();
      const id = await waiting(kit);
      await expect.poll(() => performance.now() - askedAt).toBeGreaterThan(2_000);
      await kit.approvals.decide(id, { allow: true, by: "local" });
      expect((await call).content).toEqual([{ type: "text", text: "ran\n" }]);
    },
  );
});

test("a call that takes longer than its deadline ends on both sides", async () => {
  await using kit = await openSessionKit();
  await kit.addNode();
  const word = `9${process.hrtime.bigint()}`;
  const call = callTool(kit.tools, operator, {
    name: "devbox__exec",
    arguments: { command: stubborn(word) },
    deadlineMs: 400,
  });
  expect((await faultOf(call)).code).toBe("DEADLINE_EXCEEDED");
  await expect.poll(() => findProcesses(word)).toEqual([]);
  const day = { name: "devbox__exec", arguments: { command: "x" }, deadlineMs: 86_400_001 };
  expect(await faultOf(callTool(kit.tools, operator, day))).toMatchObject({ code: "INVALID_ARGUMENT" });
});
