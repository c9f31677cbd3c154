import { create } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import type { Presence, PublicationReader } from "../../../gateway/link/links.ts";
import { createPublicationBoard } from "../../../node-agent/link/publications.ts";
import { NoticeSchema, PublicationKind } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";

proves("link.state-watch", "a watcher gets every node's state first, then each change in order", async () => {
  await using gateway = await openLinkGateway();
  await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
  await using _first = await openLinkNode(gateway, { name: "first" });
  const second = await openLinkNode(gateway, { name: "second", addresses: [`127.0.0.1:${proxy.port}`] });
  await whenLinked(gateway, "first");
  const linked = await whenLinked(gateway, "second");
  const seen: Presence[] = [];
  const stop = new AbortController();
  const watching = (async () => {
    for await (const presence of gateway.host.links.changes({ signal: stop.signal })) seen.push(presence);
  })();
  await expect.poll(() => seen.length).toBe(2);
  expect(seen.map(({ nodeId, state, reason }) => ({ nodeId, state, reason }))).toEqual([
    { nodeId: "first", state: "online", reason: "linked" },
    { nodeId: "second", state: "online", reason: "linked" },
  ]);
  proxy.refuse();
  proxy.cut();
  await expect.poll(() => seen.length).toBe(3);
  await proxy.accept();
  await expect.poll(() => seen.length).toBe(4);
  await expect.poll(() => second.status().state).toBe("online");
  await second[Symbol.asyncDispose]();
  await expect.poll(() => seen.at(-1)?.state).toBe("offline");
  stop.abort();
  await watching;
  const changes = seen.slice(2).filter(({ state }) => state !== "draining");
  expect(changes.map(({ nodeId, state, reason }) => ({ nodeId, state, reason }))).toEqual([
    { nodeId: "second", state: "reconnecting", reason: "link_lost" },
    { nodeId: "second", state: "online", reason: "linked" },
    { nodeId: "second", state: "offline", reason: "goodbye" },
  ]);
  const [lost, back, gone] = changes;
  expect(lost?.generation).toBe(linked.generation);
  expect(back?.generation).toBeGreaterThan(linked.generation);
  expect(gone?.generation).toBe(back?.generation);
  const since = seen.map(({ sinceMs }) => sinceMs).slice(2);
  expect(since).toEqual(since.toSorted((a, b) => a - b));
  for (const ms of since) expect(Math.abs(ms - Date.now())).toBeLessThan(60_000);
});

/** A reader that records what it is told. */
function recordingReader(kind: PublicationKind): PublicationReader & { readonly told: string[] } {
  const told: string[] = [];
  return {
    kind,
    told,
    read: async ({ nodeId }, { digest }) => void told.push(`${nodeId} ${digest}`),
    withdraw: (nodeId, reason) => void told.push(`${nodeId} withdrawn: ${reason}`),
  };
}

test("a publication is read once for each digest, also over a reconnect, and withdrawn when its node goes", async () => {
  const reader = recordingReader(PublicationKind.SKILLS);
  await using gateway = await openLinkGateway({ readers: [reader] });
  await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
  const board = createPublicationBoard();
  board.publish({ publication: PublicationKind.SKILLS, epoch: 1n, digest: "one" });
  const node = await openLinkNode(gateway, { addresses: [`127.0.0.1:${proxy.port}`], publications: board });
  await expect.poll(() => reader.told).toEqual(["devbox one"]);
  const { generation } = await whenLinked(gateway);
  proxy.cut();
  await expect.poll(() => gateway.host.links.find("devbox")?.generation ?? 0).toBeGreaterThan(generation);
  board.publish({ publication: PublicationKind.SKILLS, epoch: 2n, digest: "two" });
  await expect.poll(() => reader.told).toEqual(["devbox one", "devbox two"]);
  board.publish({ publication: PublicationKind.SKILLS, epoch: 3n, digest: "two" });
  const tools = recordingReader(PublicationKind.TOOLS);
  board.publish({ publication: PublicationKind.TOOLS, epoch: 1n, digest: "t" });
  gateway.host.addReader(tools);
  await expect.poll(() => tools.told).toEqual(["devbox t"]);
  await node[Symbol.asyncDispose]();
  await expect.poll(() => reader.told.at(-1)).toBe("devbox withdrawn: node_offline");
  expect(reader.told).toEqual(["devbox one", "devbox two", "devbox withdrawn: node_offline"]);
  expect(tools.told).toEqual(["devbox t", "devbox withdrawn: node_offline"]);
});

test("a publication whose reading fails is read again while the link lives", async () => {
  let tries = 0;
  const reader: PublicationReader = {
    kind: PublicationKind.TOOLS,
    read: async () => {
      tries += 1;
      if (tries < 3) throw new Error("not yet");
    },
    withdraw: () => undefined,
  };
  await using gateway = await openLinkGateway({ readers: [reader] });
  const board = createPublicationBoard();
  board.publish(create(NoticeSchema, { publication: PublicationKind.TOOLS, epoch: 1n, digest: "d" }));
  await using _node = await openLinkNode(gateway, { publications: board });
  await expect.poll(() => tries).toBe(3);
});

test("a node that publishes nothing is heard of by its parked stream", async () => {
  const clock = new ManualClock();
  await using gateway = await openLinkGateway({ clock });
  await using node = await openLinkNode(gateway, {});
  const link = await whenLinked(gateway);
  await expect.poll(() => gateway.server.callCount).toBe(2);
  await expect.poll(() => node.status().state).toBe("online");
  await expect
    .poll(() => link.signal.aborted || gateway.host.links.presence("devbox").lastSeenMs)
    .toBe(clock.now());
  // Whoever links and then says nothing at all is given up after ten seconds.
  await clock.advance(10_001);
  expect(gateway.host.links.find("devbox")).toBe(link);
});
