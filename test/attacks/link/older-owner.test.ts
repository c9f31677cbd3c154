import { writeFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { createOwnerEpoch } from "../../../node-agent/link/owner-epoch.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

proves(
  "link.older-owner-refused",
  "a gateway with a lower epoch than was accepted is refused, also after a restart of the node, and runs nothing",
  async () => {
    await using folder = await makeTempFolder();
    const file = folder.join("owner-epoch.json");
    await using newer = await openLinkGateway({ ownerEpoch: 9n });
    await using older = await openLinkGateway({ ownerEpoch: 8n, authority: newer.authority });
    await using line = await startFaultProxy({ targetPort: newer.server.port });
    const ran: string[] = [];
    const services = [
      serve(Files, {
        stat: async ({ path }) => {
          ran.push(path);
          return { entry: { path } };
        },
      }),
    ];
    const open = () =>
      openLinkNode(newer, {
        addresses: [`127.0.0.1:${line.port}`],
        services,
        ownerEpoch: createOwnerEpoch(file, "devbox"),
        random: () => 0.2,
      });
    const refused = { state: "waiting", reason: "older_owner" };
    {
      await using node = await open();
      await (await whenLinked(newer)).client(Files).stat({ path: "of the newer" });
      line.retarget(older.server.port);
      line.cut();
      await expect.poll(() => older.host.links.presence("devbox").reason).toBe("older_owner");
      await expect.poll(() => node.status()).toMatchObject(refused);
      expect(node.status().nextStep).toContain("older gateway process");
    }
    // Another process of the same node knows it from the disk.
    await using node = await open();
    await expect.poll(() => node.status()).toMatchObject(refused);
    // A call that meets the short time in which the older one takes itself for the owner never reaches the node.
    const tries: Promise<unknown>[] = [];
    await expect
      .poll(
        () => {
          const link = older.host.links.find("devbox");
          if (link) tries.push(faultOf(link.client(Files).stat({ path: "of the older" })));
          return tries.length;
        },
        { interval: 1 },
      )
      .toBeGreaterThan(2);
    for (const fault of await Promise.all(tries)) expect(fault).toBeDefined();
    expect(ran).toEqual(["of the newer"]);
    // It goes on dialling: the owner that it knows is taken back.
    line.retarget(newer.server.port);
    await expect.poll(() => node.status().state).toBe("online");
    await newer.host.links.get("devbox").client(Files).stat({ path: "of the newer again" });
    expect(ran).toEqual(["of the newer", "of the newer again"]);
  },
);

test("an epoch that cannot be read accepts no gateway, and that of another identity says nothing", async () => {
  await using folder = await makeTempFolder();
  const file = folder.join("owner-epoch.json");
  const first = createOwnerEpoch(file, "one");
  expect(await first.accept(0n)).toBeUndefined();
  expect(await first.accept(7n)).toBeUndefined();
  expect(await createOwnerEpoch(file, "one").accept(6n)).toMatchObject({
    code: "CONFLICT",
    details: { reason: "older_owner", expected: "7", actual: "6" },
  });
  expect(await createOwnerEpoch(file, "one").accept(7n)).toBeUndefined();
  expect(await createOwnerEpoch(file, "other").accept(1n)).toBeUndefined();
  await writeFile(file, "half a line", { mode: 0o600 });
  expect(await faultOf(createOwnerEpoch(file, "other").accept(9n))).toMatchObject({ code: "IO_ERROR" });
});
