import { expect, test } from "vitest";
import { keepPresences, recallPresences } from "../../../gateway/link/kept-presences.ts";
import type { Presence } from "../../../gateway/link/links.ts";
import { openStore } from "../../../gateway/store/store.ts";
import { createBroadcast } from "../../../shared/flow/broadcast.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { makeTempWorkspace } from "../../support/temp-workspace.ts";

test(
  "a gateway that was killed says of a node that is away what it knew: since when, why, and when it was heard of",
  { timeout: 120_000 },
  async () => {
    await using gateway = await startGateway();
    await using workspace = await makeTempWorkspace({});
    await using devbox = await startNode({ gateway, workspaces: { app: workspace.path } });
    const show = async (alias: string): Promise<Readonly<Record<string, unknown>>> => {
      const shown: unknown = await gateway.json(["nodes", "show", alias]);
      return shown as Readonly<Record<string, unknown>>;
    };
    await devbox.kill("SIGTERM");
    await expect.poll(async () => (await show("devbox"))["state"]).toBe("offline");
    const { since, lastSeenAt, reason } = await show("devbox");
    expect(reason).toBe("goodbye");
    expect(lastSeenAt).toEqual(expect.any(String));
    await gateway.kill("SIGKILL");
    await gateway.restart();
    expect(await show("devbox")).toMatchObject({ state: "offline", since, lastSeenAt, reason });
  },
);

test("of a node that was linked when the gateway ended, only that it was heard of until about then is known", async () => {
  await using folder = await makeTempFolder();
  const clock = new ManualClock();
  await using store = await openStore({ dir: folder.join("gateway"), clock });
  const told = createBroadcast<Presence>({
    limit: 10,
    keyOf: ({ nodeId }) => nodeId,
    onOverflow: () => presence("", {}),
  });
  const stop = new AbortController();
  const first = (): readonly Presence[] => [
    presence("a", { state: "online", reason: "linked", sinceMs: 1_000, lastSeenMs: 1_000 }),
    presence("b", { state: "offline", reason: "goodbye", sinceMs: 2_000, lastSeenMs: 1_900 }),
  ];
  const links = {
    changes: ({ signal }: { readonly signal: AbortSignal }) => told.watch({ signal, first }),
  };
  const keeping = keepPresences({ store, links, clock, signal: stop.signal });
  await expect.poll(async () => (await recallPresences(store)).size).toBe(2);
  const startedAt = clock.now();
  await clock.advance(45_000);
  await expect
    .poll(async () => (await recallPresences(store)).get("a"))
    .toMatchObject({ state: "offline", reason: "gateway_restarted", generation: 3 });
  await expect
    .poll(async () => (await recallPresences(store)).get("a")?.lastSeenMs)
    .toBeGreaterThanOrEqual(startedAt + 30_000);
  expect((await recallPresences(store)).get("b")).toMatchObject({
    state: "offline",
    reason: "goodbye",
    sinceMs: 2_000,
    lastSeenMs: 1_900,
  });
  stop.abort();
  await keeping;
});

function presence(nodeId: string, more: Partial<Presence>): Presence {
  return {
    nodeId,
    state: "offline",
    sinceMs: 0,
    reason: "",
    generation: 3,
    lastSeenMs: 0,
    address: "",
    hello: undefined,
    ...more,
  };
}
