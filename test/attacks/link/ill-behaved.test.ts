import { create, toBinary } from "@bufbuild/protobuf";
import { expect } from "vitest";
import {
  Files,
  FilesReadResponseSchema,
  FilesStatResponseSchema,
} from "../../../shared/gen/fairlead/v1/files_pb.ts";
import {
  NodeLinkControlRequestSchema,
  NodeLinkControlResponseSchema,
} from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { systemClock } from "../../../shared/lifetime/clock.ts";
import { decodeMessage } from "../../../shared/rpc/codec.ts";
import { bytesOf, encodedOf, type Encoded } from "../../../shared/rpc/encoded.ts";
import { messageFrame, parkedFrame, statusFrame } from "../../../shared/rpc/reverse/frames.ts";
import { openLinkGateway, whenLinked, type LinkGateway } from "../../contract/rpc/open-link.ts";
import { faultOf } from "../../support/fault-of.ts";
import { dialByHand, plainHello, type HandMadeStream } from "../../support/hand-made-node.ts";
import { heldBytes } from "../../support/held-bytes.ts";
import { proves } from "../../support/proves.ts";
import { dialRawHttp2, type RawHttp2Peer, type RawStreamState } from "../../support/raw-http2-peer.ts";

const mib = 1024 * 1024;

function statAnswer(path: string): Encoded {
  return messageFrame(
    encodedOf(toBinary(FilesStatResponseSchema, create(FilesStatResponseSchema, { entry: { path } }))),
  );
}

/** The id of the last call that was opened on a stream. */
function openedId({ frames }: HandMadeStream): string {
  const frame = frames.findLast(({ case: kind }) => kind === "open");
  return frame?.case === "open" ? frame.value.callId : "";
}

function droppedBy(gateway: LinkGateway, nodeId: string): number {
  return gateway.host.links.facts(nodeId).droppedCount;
}

proves(
  "link.ill-behaved-node",
  "what a node says twice or to nobody is dropped and counted, and harms no call",
  async () => {
    await using gateway = await openLinkGateway();
    await using node = await dialByHand(gateway);
    const { generation } = await node.accepted;
    const link = gateway.host.links.get("devbox");
    const stream = node.park(generation);
    const call = async (path: string): Promise<string | undefined> => {
      const asked = link.client(Files).stat({ path });
      const before = stream.frames.length;
      await expect.poll(() => stream.frames.slice(before).at(-1)?.case).toBe("end");
      stream.write(statAnswer(path));
      stream.write(statusFrame(openedId(stream), undefined));
      return (await asked).entry?.path;
    };
    await expect.poll(() => gateway.server.callCount).toBe(2);
    expect(await call("first")).toBe("first");
    // A second answer, with and without its id, and an answer to nobody.
    stream.write(statAnswer("second"));
    stream.write(statusFrame(openedId(stream), undefined));
    stream.write(statusFrame("", undefined));
    await expect.poll(() => droppedBy(gateway, "devbox")).toBe(3);
    expect(await call("next")).toBe("next");
    const stray = node.park(generation);
    stray.write(statusFrame("a call that never was", undefined));
    expect(await stray.closed).toMatchObject({ code: "NOT_FOUND" });
    await expect.poll(() => droppedBy(gateway, "devbox")).toBe(4);
    // A second hello changes nothing.
    node.say({ case: "hello", value: { ...plainHello, bootId: "another", protocolMin: 9, protocolMax: 9 } });
    await expect.poll(() => droppedBy(gateway, "devbox")).toBe(5);
    expect(gateway.host.links.presence("devbox")).toMatchObject({
      state: "online",
      hello: { bootId: "by-hand" },
    });
    expect(await call("last")).toBe("last");
    expect(gateway.host.links.find("devbox")).toBe(link);
  },
);

/** A node that writes its frames by hand and heeds no end of a stream. */
async function linkRaw(
  gateway: LinkGateway,
  name: string,
): Promise<{ peer: RawHttp2Peer; generation: bigint }> {
  const peer = await dialRawHttp2(gateway.server.port, await gateway.authority.client(name));
  const control = peer.open("/fairlead.v1.NodeLink/Control");
  const hello = create(NodeLinkControlRequestSchema, { kind: { case: "hello", value: plainHello } });
  peer.send(control, toBinary(NodeLinkControlRequestSchema, hello));
  await expect.poll(() => control.messages.length).toBeGreaterThan(0);
  const { kind } = decodeMessage(NodeLinkControlResponseSchema, control.messages[0] ?? Buffer.alloc(0));
  return { peer, generation: kind.case === "accepted" ? kind.value.generation : 0n };
}

/** Sends until it is stopped, as fast as the windows allow. */
async function flood(peer: RawHttp2Peer, stream: RawStreamState, stop: AbortSignal): Promise<void> {
  const value = Buffer.alloc(60_000, 7);
  const chunk = create(FilesReadResponseSchema, { part: { case: "chunk", value } });
  const frame = Buffer.from(bytesOf(messageFrame(encodedOf(toBinary(FilesReadResponseSchema, chunk)))));
  while (!stop.aborted && !peer.gone) {
    for (let sent = 0; sent < 16 && peer.send(stream, frame); sent += 1);
    await systemClock.sleep(1);
  }
}

proves(
  "link.ill-behaved-node",
  "a peer that goes on sending a cancelled answer is reset, counted and bounded, whatever it heeds",
  { timeout: 60_000 },
  async () => {
    await using gateway = await openLinkGateway();
    const { peer, generation } = await linkRaw(gateway, "raw");
    using _peer = peer;
    const link = await whenLinked(gateway, "raw");
    const stream = peer.open("/fairlead.v1.NodeLink/Serve");
    peer.send(stream, bytesOf(parkedFrame(generation)));
    const answers = link.client(Files).read({})[Symbol.asyncIterator]();
    const first = answers.next();
    await expect.poll(() => stream.messages.length).toBeGreaterThan(1);
    const stop = new AbortController();
    const flooding = flood(peer, stream, stop.signal);
    await first;
    await answers.next();
    const before = heldBytes();
    await answers.return?.();
    await expect.poll(() => stream.reset, { timeout: 1000 }).toBe(true);
    expect(droppedBy(gateway, "raw")).toBeGreaterThan(0);
    const sentThen = peer.sentBytes;
    // It heeds neither: what comes after the reset costs nothing either.
    await expect.poll(() => peer.sentBytes - sentThen).toBeGreaterThan(mib);
    await systemClock.sleep(1500);
    expect(heldBytes() - before).toBeLessThan(16 * mib);
    stop.abort();
    await flooding;

    // A stream that the gateway ends, and that the peer does not.
    const refused = peer.open("/fairlead.v1.NodeLink/Serve");
    peer.send(refused, bytesOf(parkedFrame(generation + 1n)));
    await expect.poll(() => refused.ended).toBe(true);
    const stopAgain = new AbortController();
    const floodingAgain = flood(peer, refused, stopAgain.signal);
    await expect.poll(() => refused.reset || peer.gone, { timeout: 3000 }).toBe(true);
    expect(heldBytes() - before).toBeLessThan(16 * mib);
    stopAgain.abort();
    await floodingAgain;

    // The link is the same one, and its next stream serves.
    expect(gateway.host.links.find("raw")).toBe(link);
    const next = peer.open("/fairlead.v1.NodeLink/Serve");
    peer.send(next, bytesOf(parkedFrame(generation)));
    const asked = faultOf(link.client(Files).stat({ path: "after" }, { callId: "after" }));
    await expect.poll(() => next.messages.length).toBe(3);
    peer.send(next, bytesOf(statusFrame("after", undefined)));
    expect(await asked).toMatchObject({ code: "INTERNAL" });
  },
);
