import { expect } from "vitest";
import { Fault } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { LinkPurpose, Node, OutcomeState } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { statusFrame } from "../../../shared/rpc/reverse/frames.ts";
import { serve } from "../../../shared/rpc/service.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { dialByHand, plainHello } from "../../support/hand-made-node.ts";
import { proves } from "../../support/proves.ts";

const notFound = { code: "NOT_FOUND" };

proves(
  "link.answers-bound-to-node",
  "a node reaches no call but its own, whatever it answers, cancels or asks",
  async () => {
    // The generation rises by one with every link, whichever node it is: none is ever equal to another's.
    let generation = 0;
    await using gateway = await openLinkGateway({
      nextGeneration: async () => ({ generation: (generation += 1), isStale: false }),
    });
    const finish = Promise.withResolvers<void>();
    const services = [
      serve(Files, {
        remove: async () => {
          await finish.promise;
          return { removed: 7n };
        },
      }),
    ];
    await using _honest = await openLinkNode(gateway, { name: "honest", services });
    const honest = await whenLinked(gateway, "honest");
    const real = honest.client(Files).remove({ path: "x" }, { callId: "of-the-honest" });
    await expect.poll(() => gateway.server.callCount).toBe(2);

    await using thief = await dialByHand(gateway, { name: "thief" });
    const { generation: own } = await thief.accepted;
    const links = gateway.host.links;

    // Answers and cancels: from a parked stream, and in the place of its own call's status.
    for (const fault of [undefined, new Fault("CANCELLED", "the thief says so")]) {
      const idle = thief.park(own);
      idle.write(statusFrame("of-the-honest", fault));
      expect(await idle.closed).toMatchObject(notFound);
      const busy = thief.park(own);
      const asked = faultOf(links.get("thief").client(Files).stat({ path: "y" }));
      await expect.poll(() => busy.frames[0]?.case).toBe("open");
      busy.write(statusFrame("of-the-honest", fault));
      expect(await busy.closed).toMatchObject(notFound);
      expect(await asked).toMatchObject({ code: "INTERNAL", details: { reason: "foreign_status" } });
    }
    // A stream for the honest node's link, over its own connection, and a bulk connection for it.
    expect(await thief.park(BigInt(honest.generation)).closed).toMatchObject(notFound);
    await using bulk = await dialByHand(gateway, {
      name: "thief",
      hello: { purpose: LinkPurpose.BULK, generation: BigInt(honest.generation) },
    });
    expect(await bulk.closed).toMatchObject(notFound);
    // Asks.
    const question = { callId: "of-the-honest" };
    expect(await faultOf(thief.client.client(Node).getOutcome(question))).toMatchObject(notFound);
    const tls = await gateway.authority.client("honest");
    await using asHonest = openGrpcClient({ address: gateway.server.address, security: () => tls });
    expect((await asHonest.client(Node).getOutcome(question)).state).toBe(OutcomeState.RUNNING);
    // Without a hello that was accepted on the same connection nothing is served.
    await using silent = await dialByHand(gateway, {
      name: "thief",
      hello: { protocolMin: 9, protocolMax: 9 },
    });
    expect(await silent.park(own).closed).toMatchObject(notFound);

    finish.resolve();
    expect((await real).removed).toBe(7n);
    expect(links.find("honest")).toBe(honest);
  },
);

proves(
  "link.answers-bound-to-node",
  "an old connection of a node answers no call of its newer one",
  async () => {
    await using gateway = await openLinkGateway();
    await using old = await dialByHand(gateway);
    const before = await old.accepted;
    const parked = old.park(before.generation);
    await expect.poll(() => gateway.server.callCount).toBe(2);
    await using next = await dialByHand(gateway, { hello: { ...plainHello, bootId: "next" } });
    const after = await next.accepted;
    const serving = next.park(after.generation);
    const asked = gateway.host.links.get("devbox").client(Files).stat({ path: "z" }, { callId: "newer" });
    await expect.poll(() => serving.frames.map((frame) => frame.case)).toEqual(["open", "message", "end"]);
    // The old connection stays for half a second, for its node to read why.
    parked.write(statusFrame("newer", undefined));
    const late = old.park(after.generation);
    expect(await parked.closed).toMatchObject(notFound);
    expect(await late.closed).toMatchObject(notFound);
    serving.write(statusFrame("newer", new Fault("NOT_A_FILE", "the newer one's own answer")));
    expect(await faultOf(asked)).toMatchObject({ code: "NOT_A_FILE" });
  },
);
