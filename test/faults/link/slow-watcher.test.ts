import { expect } from "vitest";
import type { Presence } from "../../../gateway/link/links.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { heldBytes } from "../../support/held-bytes.ts";
import { proves } from "../../support/proves.ts";

const mib = 1024 * 1024;

proves(
  "link.slow-watcher-coalesced",
  "a watcher that stopped gets the latest state of each node, and 1,000,000 changes cost it nothing",
  { timeout: 120_000 },
  async () => {
    await using gateway = await openLinkGateway();
    await using _first = await openLinkNode(gateway, { name: "first" });
    await using _second = await openLinkNode(gateway, { name: "second" });
    await whenLinked(gateway, "first");
    await whenLinked(gateway, "second");
    const { links } = gateway.host;
    const stop = new AbortController();
    const slow = links.changes({ signal: stop.signal })[Symbol.asyncIterator]();
    const first: (Presence | undefined)[] = [(await slow.next()).value, (await slow.next()).value];
    expect(new Set(first.map((presence) => presence?.nodeId))).toEqual(new Set(["first", "second"]));
    const before = heldBytes();
    const drain = { sinceMs: 0, deadlineMs: Date.now() + 3_600_000, untilMs: undefined, note: "" };
    let changes = 0;
    while (changes < 1_000_000) {
      // Two changes a turn of this loop, each told to whoever watches.
      for (let turn = 0; turn < 5_000; turn += 1) {
        gateway.host.setDrain("first", drain);
        gateway.host.setDrain("first", undefined);
        changes += 2;
      }
      await new Promise((resolve) => void setImmediate(resolve));
    }
    gateway.host.setDrain("first", drain);
    expect(heldBytes() - before).toBeLessThan(16 * mib);
    // One item of the node that changed, and it is the latest; none of the other.
    expect((await slow.next()).value).toMatchObject({
      nodeId: "first",
      state: "draining",
      reason: "drained",
    });
    gateway.host.setDrain("second", drain);
    expect((await slow.next()).value).toMatchObject({ nodeId: "second", state: "draining" });
    stop.abort();
    expect((await slow.next()).done).toBe(true);
  },
);
