import { rm, writeFile } from "node:fs/promises";
import { expect } from "vitest";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { startNode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { median } from "../support/report.ts";
import { digestTree, writeTree } from "./trees.ts";

const fileCount = 10_000;
const rounds = 3;

interface SyncCounts {
  readonly bytesSent: number;
  readonly bytesReused: number;
  readonly durationMs: number;
}

proves(
  "files.bench-unchanged-sync",
  "a sync of a tree that has not changed takes a tenth of the first one, and sends next to nothing",
  { timeout: 900_000 },
  async () => {
    await using folder = await makeTempFolder();
    await using proxy = await startFaultProxy({ targetPort: 1 });
    await using gateway = await startGateway({ args: ["--advertise", `127.0.0.1:${proxy.port}`] });
    proxy.retarget(Number(gateway.link.split(":").at(-1)));
    await writeTree(folder.join("there"), fileCount);
    await using _node = await startNode({
      gateway,
      workspaces: { app: folder.join("there") },
      profile: "read",
    });
    const sync = async (): Promise<SyncCounts> =>
      (await gateway.json(["files", "sync", "devbox:/app", folder.join("here")], {
        timeoutMs: 300_000,
      })) as SyncCounts;
    const [first, again]: [number[], number[]] = [[], []];
    for (let round = 0; round < rounds; round += 1) {
      await rm(folder.join("here"), { recursive: true, force: true });
      // Another content, so that nothing of it is known from the round before.
      await rm(folder.join("there"), { recursive: true });
      await writeTree(folder.join("there"), fileCount);
      const whole = await sync();
      expect(whole.bytesReused).toBe(0);
      first.push(whole.durationMs);
      const before = proxy.counts.up.bytes + proxy.counts.down.bytes;
      const same = await sync();
      again.push(same.durationMs);
      expect([same.bytesSent, same.bytesReused]).toEqual([0, whole.bytesSent]);
      expect(proxy.counts.up.bytes + proxy.counts.down.bytes - before).toBeLessThan(whole.bytesSent / 100);
    }
    expect(await digestTree(folder.join("here"))).toBe(await digestTree(folder.join("there")));
    const [whole, same] = [median(first), median(again)];
    console.log(
      `sync of ${fileCount} files: first ${whole.toFixed(0)} ms, unchanged ${same.toFixed(0)} ms, ${(whole / same).toFixed(1)} ×`,
    );
    expect(same).toBeLessThanOrEqual(whole / 10);
    await writeFile(folder.join("there/changed"), "one more");
    expect((await sync()).bytesSent).toBe(8);
  },
);
