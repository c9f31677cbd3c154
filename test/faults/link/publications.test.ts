import { expect } from "vitest";
import { createToolCatalogue } from "../../../gateway/tools/catalogue.ts";
import { createPublicationBoard } from "../../../node-agent/link/publications.ts";
import { PublicationKind } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { CallClass } from "../../../shared/gen/fairlead/v1/options_pb.ts";
import { Tools } from "../../../shared/gen/fairlead/v1/tools_pb.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { dialByHand } from "../../support/hand-made-node.ts";
import { proves } from "../../support/proves.ts";

const schema = { inputSchemaJson: "{}", callClass: CallClass.IDEMPOTENT, effect: "read" };

proves(
  "link.stale-publication-dropped",
  "what an old connection publishes late changes nothing, and what is equal after a reconnect is no change",
  async () => {
    const catalogue = createToolCatalogue();
    await using gateway = await openLinkGateway({ readers: [catalogue.reader] });
    await using line = await startFaultProxy({ targetPort: gateway.server.port });
    const stop = new AbortController();
    const changes: string[] = [];
    const watching = (async () => {
      for await (const nodeId of catalogue.changes({ signal: stop.signal })) changes.push(nodeId);
    })();
    await using old = await dialByHand(gateway);
    await old.accepted;

    const held = { names: ["first"], digest: "one" };
    let reads = 0;
    const services = [
      serve(Tools, {
        listPublished: async () => {
          reads += 1;
          return { tools: held.names.map((name) => ({ name, ...schema })), epoch: 1n, digest: held.digest };
        },
      }),
    ];
    const board = createPublicationBoard();
    board.publish({ publication: PublicationKind.TOOLS, epoch: 1n, digest: held.digest });
    await using _node = await openLinkNode(gateway, {
      addresses: [`127.0.0.1:${line.port}`],
      services,
      publications: board,
      bootId: "newer",
    });
    const names = (): readonly string[] => catalogue.find("devbox")?.tools.map(({ name }) => name) ?? [];
    await expect.poll(names).toEqual(["first"]);
    // The old connection is there for half a second more: what it says arrives after the newer one's word.
    held.names = ["never asked for"];
    old.say({ case: "notice", value: { publication: PublicationKind.TOOLS, epoch: 99n, digest: "stale" } });
    await old.closed;
    expect(names()).toEqual(["first"]);
    expect({ reads, changes: changes.length }).toEqual({ reads: 1, changes: 1 });

    // The same content after a reconnect: nothing is asked and nobody is told.
    let { generation } = await whenLinked(gateway);
    line.cut();
    await expect.poll(() => gateway.host.links.find("devbox")?.generation ?? 0).toBeGreaterThan(generation);
    ({ generation } = await whenLinked(gateway));
    // A change on the newer link shows that what came before it was dealt with.
    held.names = ["second"];
    held.digest = "two";
    board.publish({ publication: PublicationKind.TOOLS, epoch: 2n, digest: "two" });
    await expect.poll(names).toEqual(["second"]);
    expect({ reads, changes: changes.length }).toEqual({ reads: 2, changes: 2 });
    stop.abort();
    await watching;
  },
);
