import { expect } from "vitest";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { raceSignal } from "../../../shared/lifetime/clock.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { heldBytes } from "../../support/held-bytes.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";

/** The heap after everything that can be dropped was dropped: the least of several looks. */
async function leastHeldBytes(): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let look = 0; look < 20; look += 1) {
    await new Promise((resolve) => void setImmediate(resolve));
    least = Math.min(least, heldBytes());
  }
  return least;
}

proves(
  "link.cancelled-calls-leave-nothing",
  "20,000 cancelled streams leave the link as it was",
  async () => {
    const clock = new ManualClock();
    await using gateway = await openLinkGateway({ clock });
    let running = 0;
    const services = [
      serve(Files, {
        read: async function* (_request, { signal }) {
          running += 1;
          try {
            yield {};
            await raceSignal(new Promise<never>(() => undefined), signal);
          } finally {
            running -= 1;
          }
        },
      }),
    ];
    await using _node = await openLinkNode(gateway, { services });
    const link = await whenLinked(gateway);
    const files = link.client(Files);
    const cancelMany = async (count: number): Promise<void> => {
      let left = count;
      const workers = Array.from({ length: 32 }, async () => {
        for (; left > 0; left -= 1)
          for await (const _part of files.read({}, { deadlineMs: 3_600_000 })) break;
      });
      await Promise.all(workers);
    };
    await cancelMany(1000);
    await expect.poll(() => running).toBe(0);
    const before = await leastHeldBytes();
    await cancelMany(19_000);
    await expect.poll(() => running).toBe(0);
    expect(gateway.host.links.find("devbox")).toBe(link);
    expect(link.signal.aborted).toBe(false);
    expect(await leastHeldBytes()).toBeLessThan(before * 1.1);
    // What stays open are parked streams, which end when they are idle: then it is one, as before the first call.
    for (let seconds = 0; seconds < 35; seconds += 5) {
      await clock.advance(5000);
      await expect
        .poll(() => clock.now() - gateway.host.links.presence("devbox").lastSeenMs)
        .toBeLessThan(10_001);
    }
    await expect.poll(() => gateway.server.callCount).toBe(2);
  },
);
