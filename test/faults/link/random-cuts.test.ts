import { readdir } from "node:fs/promises";
import { expect } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const callCount = 1000;

function listenerCount(): number {
  return process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
}

function resourceCount(of: string): number {
  return process.getActiveResourcesInfo().filter((name) => name === of).length;
}

const timerCount = (): number => resourceCount("Timeout");
const processCount = (): number => resourceCount("ProcessWrap");

proves(
  "link.random-cuts-settle-once",
  "calls that run once each settle once under cuts at random moments",
  { timeout: 120_000 },
  async () => {
    const effects = new Map<string, number>();
    const settled = new Map<string, string[]>();
    const note = (id: string, how: string): void => void settled.set(id, [...(settled.get(id) ?? []), how]);
    const run = async (callCount: number): Promise<void> => {
      await using gateway = await openLinkGateway();
      await using proxy = await startFaultProxy({ targetPort: gateway.server.port });
      const services = [
        serve(Files, {
          remove: async ({ path }, { signal }) => {
            await systemClock.sleep(Math.random() * 20, { signal });
            effects.set(path, (effects.get(path) ?? 0) + 1);
            await systemClock.sleep(Math.random() * 20, { signal });
            return { removed: BigInt(path) };
          },
        }),
      ];
      await using _node = await openLinkNode(gateway, {
        addresses: [`127.0.0.1:${proxy.port}`],
        services,
        random: () => Math.random() * 0.1,
      });
      await whenLinked(gateway);
      const stop = new AbortController();
      const cutting = (async () => {
        while (!stop.signal.aborted) {
          await systemClock.sleep(100 + Math.random() * 400);
          proxy.cut({ reset: Math.random() < 0.5 });
        }
      })();
      const callOne = async (id: string): Promise<void> => {
        const files = gateway.host.links.find("devbox")?.client(Files);
        if (!files) return note(id, "NODE_OFFLINE");
        try {
          const { removed } = await files.remove({ path: id }, { deadlineMs: 60_000 });
          note(id, removed === BigInt(id) ? "OK" : "wrong answer");
        } catch (error) {
          note(id, error instanceof Fault ? error.code : String(error));
        }
      };
      const ids = Array.from({ length: callCount }, (_, at) => String(at));
      const workers = Array.from({ length: 20 }, async () => {
        for (let id = ids.pop(); id !== undefined; id = ids.pop()) {
          await callOne(id);
          await systemClock.sleep(Math.random() * 10);
        }
      });
      await Promise.all(workers);
      stop.abort();
      await cutting;
    };
    await using temporary = await makeTempFolder();
    process.env["TMPDIR"] = temporary.path;
    await run(30);
    settled.clear();
    effects.clear();
    const before = {
      descriptors: (await readdir("/proc/self/fd")).length,
      timers: timerCount(),
      listeners: listenerCount(),
      processes: processCount(),
    };
    await run(callCount);

    expect(settled.size).toBe(callCount);
    const outcomes = new Set<string>();
    for (const [id, how] of settled) {
      expect(how).toHaveLength(1);
      const effectCount = effects.get(id) ?? 0;
      expect(effectCount).toBeLessThanOrEqual(1);
      if (how[0] === "OK") expect(effectCount).toBe(1);
      if (how[0] === "NODE_OFFLINE") expect(effectCount).toBe(0);
      outcomes.add(how[0] ?? "");
    }
    expect([...outcomes].filter((how) => how !== "OK" && how !== "NODE_OFFLINE")).toEqual([]);
    expect(listenerCount()).toBe(before.listeners);
    expect(processCount()).toBe(before.processes);
    expect(await temporary.entries()).toEqual([]);
    // No poll of the test's own: it would be a timer too.
    for (let tries = 0; tries < 50 && timerCount() > before.timers; tries += 1) await systemClock.sleep(100);
    expect(timerCount()).toBeLessThanOrEqual(before.timers);
    await expect
      .poll(async () => (await readdir("/proc/self/fd")).length)
      .toBeLessThanOrEqual(before.descriptors);
  },
);
