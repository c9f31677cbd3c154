import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, test } from "vitest";
import type { Fault } from "../../../shared/fault/fault.ts";
import {
  LinkPurpose,
  NodeLinkControlRequestSchema,
  NodeLinkControlResponseSchema,
  NodeLinkServeRequestSchema,
  PublicationKind,
  type NodeLinkControlResponse,
} from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { decodeMessage } from "../../../shared/rpc/codec.ts";
import { encodedOf } from "../../../shared/rpc/encoded.ts";
import { openGrpcClient, type GrpcClient } from "../../../shared/rpc/grpc-client.ts";
import type { ClientRawStream } from "../../../shared/rpc/raw-stream.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";
import { openLinkGateway, openLinkNode, whenLinked, type LinkGateway } from "./open-link.ts";

type Said = MessageInitShape<typeof NodeLinkControlRequestSchema>["kind"];

/** A node by hand: one control stream. */
function openControl(client: GrpcClient) {
  const control = client.openStream("/fairlead.v1.NodeLink/Control");
  const heard: NodeLinkControlResponse["kind"][] = [];
  control.onMessage((bytes) => void heard.push(decodeMessage(NodeLinkControlResponseSchema, bytes).kind));
  const closed = closeOf(control);
  const say = (kind: NonNullable<Said>): void => {
    control.write(
      encodedOf(toBinary(NodeLinkControlRequestSchema, create(NodeLinkControlRequestSchema, { kind }))),
    );
  };
  return { heard, say, closed };
}

function closeOf(stream: ClientRawStream): Promise<Fault | undefined> {
  return new Promise((resolve) => {
    stream.onClosed(resolve);
  });
}

async function dial(gateway: LinkGateway, name = "devbox"): Promise<GrpcClient> {
  const tls = await gateway.authority.client(name);
  return openGrpcClient({ address: gateway.server.address, security: () => tls });
}

const hello = { protocolMin: 2, protocolMax: 3, bootId: "boot-1", purpose: LinkPurpose.CONTROL, methods: [] };

proves(
  "link.hello-first",
  "a link counts as online only once its hello was accepted, and begins with nothing else",
  async () => {
    const accept = Promise.withResolvers<void>();
    await using gateway = await openLinkGateway({
      identify: async () => {
        await accept.promise;
        return { nodeId: "devbox", alias: "devbox" };
      },
    });
    await using client = await dial(gateway);
    const control = openControl(client);
    const publications = [{ publication: PublicationKind.SKILLS, epoch: 7n, digest: "sha256:1" }];
    control.say({ case: "hello", value: { ...hello, runningCallIds: ["call-1"], publications } });
    await expect.poll(() => gateway.server.callCount).toBe(1);
    expect(gateway.host.links.presence("devbox").state).toBe("offline");
    expect(control.heard).toEqual([]);
    accept.resolve();
    await expect.poll(() => control.heard[0]?.case).toBe("accepted");
    const { state, hello: kept } = gateway.host.links.presence("devbox");
    expect(state).toBe("online");
    expect(kept).toMatchObject({
      protocolMin: 2,
      protocolMax: 3,
      bootId: "boot-1",
      runningCallIds: ["call-1"],
    });
    expect(kept?.publications[0]).toMatchObject({ epoch: 7n, digest: "sha256:1" });

    const others: NonNullable<Said>[] = [
      { case: "ping", value: { sequence: 1n } },
      { case: "drain", value: {} },
      { case: "notice", value: { publication: PublicationKind.TOOLS } },
      { case: "pong", value: {} },
    ];
    for (const first of others) {
      await using other = await dial(gateway, "other");
      const wrong = openControl(other);
      wrong.say(first);
      expect(await wrong.closed).toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    expect(gateway.host.links.presence("other").state).toBe("offline");
  },
);

test("a node without a certificate is refused before its hello is judged, and one with a foreign certificate before it is heard", async () => {
  await using gateway = await openLinkGateway();
  await using foreign = await openLinkGateway();
  const theirs = await foreign.authority.client("devbox");
  const { verifyPeer } = gateway.authority.stranger;
  const { address } = gateway.server;
  for (const [tls, code] of [
    [{ verifyPeer }, "UNAUTHENTICATED"],
    [{ ...theirs, verifyPeer }, "GATEWAY_UNREACHABLE"],
  ] as const) {
    await using client = openGrpcClient({ address, security: () => tls });
    const control = openControl(client);
    control.say({ case: "hello", value: hello });
    expect(await control.closed).toMatchObject({ code });
  }
});

test("a serve stream is refused without an accepted hello on its own connection, and with another generation", async () => {
  await using gateway = await openLinkGateway();
  await using client = await dial(gateway);
  const control = openControl(client);
  control.say({ case: "hello", value: hello });
  await expect.poll(() => control.heard[0]?.case).toBe("accepted");
  const { generation } = gateway.host.links.get("devbox");
  const park = async (over: GrpcClient, named: number): Promise<Fault | undefined> => {
    const stream = over.openStream("/fairlead.v1.NodeLink/Serve");
    stream.onMessage(() => undefined);
    const frame = { case: "parked", value: { generation: BigInt(named) } } as const;
    stream.write(
      encodedOf(toBinary(NodeLinkServeRequestSchema, create(NodeLinkServeRequestSchema, { frame }))),
    );
    return await closeOf(stream);
  };
  expect(await park(client, generation - 1)).toMatchObject({ code: "NOT_FOUND" });
  await using stranger = await dial(gateway, "devbox");
  expect(await park(stranger, generation)).toMatchObject({ code: "NOT_FOUND" });
});

test("a node that was accepted and never says anything is given up sooner than one that fell silent", async () => {
  const clock = new ManualClock();
  await using gateway = await openLinkGateway({ clock });
  await using client = await dial(gateway);
  const control = openControl(client);
  control.say({ case: "hello", value: hello });
  await expect.poll(() => gateway.host.links.presence("devbox").state).toBe("online");
  await clock.advance(1_000);
  await expect.poll(() => control.heard.map((message) => message.case)).toEqual(["accepted", "ping"]);
  await clock.advance(8_900);
  expect(gateway.host.links.presence("devbox").state).toBe("online");
  await clock.advance(200);
  await expect.poll(() => gateway.host.links.find("devbox")).toBe(undefined);
  // One that has answered once is borne for as long as ever.
  await using second = await dial(gateway);
  const heard = openControl(second);
  heard.say({ case: "hello", value: hello });
  await expect.poll(() => gateway.host.links.presence("devbox").state).toBe("online");
  await clock.advance(5);
  heard.say({ case: "pong", value: { sequence: 1n } });
  await expect.poll(() => gateway.host.links.presence("devbox").lastSeenMs).toBe(clock.now());
  await clock.advance(20_000);
  expect(gateway.host.links.presence("devbox").state).toBe("online");
});

proves("link.heartbeat-from-gateway", "both sides keep the interval that the gateway announces", async () => {
  await using gateway = await openLinkGateway({ heartbeat: { heartbeatMs: 100, deadAfterMs: 60_000 } });
  await using client = await dial(gateway);
  const control = openControl(client);
  control.say({ case: "hello", value: hello });
  await expect
    .poll(() => control.heard.filter((message) => message.case === "ping").length)
    .toBeGreaterThan(3);
  expect(control.heard[0]).toMatchObject({
    case: "accepted",
    value: { heartbeatMs: 100, deadAfterMs: 60_000 },
  });

  await using usual = await openLinkGateway();
  await using plain = await dial(usual);
  const announced = openControl(plain);
  announced.say({ case: "hello", value: hello });
  await expect
    .poll(() => announced.heard[0])
    .toMatchObject({ value: { heartbeatMs: 10_000, deadAfterMs: 25_000 } });

  for (const deadAfterMs of [0, 99, 100]) {
    await expect(openLinkGateway({ heartbeat: { heartbeatMs: 100, deadAfterMs } })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      details: { field: "deadAfterMs" },
    });
  }

  // The node gives up a gateway that is silent for as long as was announced, not for as long as is usual.
  await using silent = await openLinkGateway({ heartbeat: { heartbeatMs: 400, deadAfterMs: 500 } });
  await using node = await openLinkNode(silent, {});
  await whenLinked(silent);
  await expect.poll(() => node.status().state).toBe("online");
});
