import { join } from "node:path";
import { expect } from "vitest";
import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import { createPublicationBoard } from "../../../node-agent/link/publications.ts";
import { startLink } from "../../../node-agent/link/start-link.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { PublicationKind } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { listOf } from "../../support/cli-fault.ts";
import { faultOf } from "../../support/fault-of.ts";
import { pairIdentity } from "../../support/paired-identity.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
}

proves(
  "link.hanging-handler-shown",
  "when every third call hangs the others are as quick as ever, none is repeated, and nodes show names the method",
  { timeout: 60_000 },
  async () => {
    await using gateway = await startGateway();
    await using identity = await pairIdentity(gateway, { alias: "devbox" });
    const begun = new Map<string, number>();
    let calls = 0;
    let hangs = false;
    let arrived = Promise.withResolvers<void>();
    const services = [
      serve(Files, {
        listExports: async () => ({
          exports: [{ workspace: "app", containment: "kernel", state: "available", leaseEpoch: 1n }],
        }),
        stat: async ({ path }) => {
          begun.set(path, (begun.get(path) ?? 0) + 1);
          calls += 1;
          if (hangs && calls % 3 === 0) {
            arrived.resolve();
            await new Promise<never>(() => undefined);
          }
          return { entry: { path }, source: { workspace: "app", requestedPath: path, canonicalPath: path } };
        },
      }),
    ];
    const board = createPublicationBoard();
    board.publish({ publication: PublicationKind.WORKSPACES, epoch: 1n, digest: "w" });
    await using _node = startLink({
      addresses: [identity.address],
      loadTls: identity.tls,
      services,
      publications: board,
    });
    const socket = await findAdminSocket(join(gateway.home, "gateway"));
    await using client = openGrpcClient({ address: `unix:${socket}`, security: "insecure" });
    const files = client.client(Files);
    const stat = async (path: string): Promise<number> => {
      const begunAt = performance.now();
      await files.stat({ workspace: "devbox:/app", path }, { deadlineMs: 1500 });
      return performance.now() - begunAt;
    };
    await expect.poll(async () => await stat("ready").catch(() => undefined)).toBeDefined();
    const usual: number[] = [];
    for (let at = 0; at < 60; at += 1) usual.push(await stat(`usual-${at}`));

    hangs = true;
    calls = 0;
    const quick: number[] = [];
    let outOfTime = 0;
    const hanging: Promise<void>[] = [];
    for (let at = 0; at < 90; at += 1) {
      arrived = Promise.withResolvers<void>();
      const isThird = calls % 3 === 2;
      const call = stat(`some-${at}`);
      if (isThird) {
        hanging.push(
          faultOf(call).then(({ code }) => {
            if (code === "DEADLINE_EXCEEDED") outOfTime += 1;
          }),
        );
        await arrived.promise;
      } else quick.push(await call);
    }
    await Promise.all(hanging);
    expect(outOfTime).toBe(30);
    expect(median(quick)).toBeLessThan(2 * Math.max(median(usual), 5));
    expect(Math.max(...begun.values())).toBeLessThanOrEqual(3);

    const [shown] = listOf(await gateway.json(["nodes", "ls"]), "nodes");
    expect(shown).toMatchObject({ state: "online", timedOutCalls: { "Files.Stat": 30 } });
    expect((await gateway.cli(["nodes", "show", "devbox"])).stdout).toContain("30 of Files.Stat");
  },
);
