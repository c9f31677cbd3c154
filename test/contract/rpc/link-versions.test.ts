import { create, toBinary } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { expect, test } from "vitest";
import { startLink } from "../../../node-agent/link/start-link.ts";
import { Fault } from "../../../shared/fault/fault.ts";
import { Files, FilesStatRequestSchema } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import {
  HelloAcceptedSchema,
  LinkPurpose,
  NodeLink,
  NodeLinkControlRequestSchema,
  NodeLinkControlResponseSchema,
} from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { encodeMessage } from "../../../shared/rpc/codec.ts";
import { bytesOf, encodedOf } from "../../../shared/rpc/encoded.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { startGrpcServer } from "../../../shared/rpc/grpc-server.ts";
import { rawMethod, type ServerRawStream } from "../../../shared/rpc/raw-stream.ts";
import {
  endFrame,
  messageFrame,
  openFrame,
  parkedFrame,
  readAnswerFrame,
} from "../../../shared/rpc/reverse/frames.ts";
import { createServerCredentials } from "../../../shared/rpc/server-credentials.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { echoServices } from "./echo-services.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "./open-link.ts";
import { makeAuthority } from "./throwaway-certificates.ts";

/** A field that no version of today knows. */
function unknownField(): Uint8Array {
  return new BinaryWriter().tag(900, WireType.LengthDelimited).string("from the future").finish();
}

const newer = (known: Uint8Array): Buffer => Buffer.concat([known, unknownField()]);

proves(
  "link.method-not-known",
  "what a peer does not know is refused before dispatch or ignored, and the link stays up",
  async () => {
    // The node lacks a method: nothing is dispatched.
    await using gateway = await openLinkGateway();
    const seen: string[] = [];
    await using _node = await openLinkNode(gateway, {
      services: echoServices(),
      onFault: (_error, about) => void seen.push(about),
    });
    const link = await whenLinked(gateway);
    expect(await faultOf(link.client(Files).move({}))).toMatchObject({ code: "VERSION_UNSUPPORTED" });
    expect((await link.client(Files).stat({ path: "known" })).entry?.path).toBe("known");
    expect(seen).toEqual([]);
    expect(gateway.host.links.find("devbox")).toBe(link);

    // A newer node: unknown fields of the hello, unknown kinds on the control stream and on a parked stream.
    const tls = await gateway.authority.client("newer");
    await using client = openGrpcClient({ address: gateway.server.address, security: () => tls });
    const control = client.openStream("/fairlead.v1.NodeLink/Control");
    let closed = false;
    control.onMessage(() => undefined);
    control.onClosed(() => {
      closed = true;
    });
    const hello = {
      protocolMin: 3,
      protocolMax: 9,
      bootId: "b",
      purpose: LinkPurpose.CONTROL,
      methods: ["/fairlead.v1.Files/Stat"],
    };
    const said = create(NodeLinkControlRequestSchema, { kind: { case: "hello", value: hello } });
    control.write(encodedOf(newer(toBinary(NodeLinkControlRequestSchema, said))));
    const newerLink = await whenLinked(gateway, "newer");
    control.write(encodedOf(unknownField()));
    const parked = client.openStream("/fairlead.v1.NodeLink/Serve");
    const frames: string[] = [];
    parked.onMessage((bytes) => void frames.push(String(bytes.byteLength)));
    parked.onClosed(() => undefined);
    parked.write(parkedFrame(BigInt(newerLink.generation)));
    parked.write(encodedOf(unknownField()));
    await expect.poll(() => gateway.server.callCount).toBe(4);
    const answer = faultOf(newerLink.client(Files).stat({ path: "x" }, { deadlineMs: 500 }));
    await expect.poll(() => frames.length).toBeGreaterThan(0);
    parked.write(encodedOf(unknownField()));
    expect(await answer).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(closed).toBe(false);
    expect(gateway.host.links.find("newer")).toBe(newerLink);
  },
);

test("a node ignores what a newer gateway says that it does not know", async () => {
  const authority = await makeAuthority();
  const served: ServerRawStream[] = [];
  const controls: ServerRawStream[] = [];
  const service = {
    service: NodeLink,
    implementation: {
      control: rawMethod((stream) => {
        controls.push(stream);
        stream.onMessage(() => {
          if (controls.length > 1 || stream.unsentCount > 0) return;
          const value = create(HelloAcceptedSchema, {
            generation: 5n,
            protocol: 3,
            heartbeatMs: 10_000,
            deadAfterMs: 25_000,
          });
          const accepted = create(NodeLinkControlResponseSchema, { kind: { case: "accepted", value } });
          stream.write(encodedOf(newer(toBinary(NodeLinkControlResponseSchema, accepted))));
          stream.write(encodedOf(unknownField()));
        });
        stream.onClosed(() => undefined);
      }),
      serve: rawMethod((stream) => void served.push(stream)),
    },
  };
  const { credentials } = createServerCredentials(authority.server);
  await using server = await startGrpcServer({ services: [service], address: "127.0.0.1:0", credentials });
  const tls = await authority.client("devbox");
  await using node = startLink({ addresses: [server.address], loadTls: () => tls, services: echoServices() });
  await expect.poll(() => served.length).toBe(1);
  const [stream] = served;
  const answers: string[] = [];
  stream?.onMessage((bytes) => void answers.push(readAnswerFrame(bytes).case ?? "unknown"));
  stream?.onClosed(() => undefined);
  stream?.write(encodedOf(unknownField()));
  stream?.write(openFrame(opening("/fairlead.v1.Files/Unheard")));
  await expect.poll(() => answers).toEqual(["parked", "status"]);
  expect(node.status().state).toBe("online");
  // An earlier gateway, which sends every message in a frame of its own, is answered in kind.
  const request = encodeMessage(FilesStatRequestSchema, { path: "x".repeat(100) });
  answers.length = 0;
  stream?.write(openFrame(opening("/fairlead.v1.Files/Stat")));
  stream?.write(messageFrame(request));
  stream?.write(endFrame);
  await expect.poll(() => answers).toEqual(["message", "status"]);
  // One of today sends two in all, unless they are too long for that.
  const short = { request: bytesOf(request), answerInStatus: true };
  answers.length = 0;
  stream?.write(openFrame({ ...opening("/fairlead.v1.Files/Stat"), ...short }));
  await expect.poll(() => answers).toEqual(["status"]);
  const long = { request: bytesOf(encodeMessage(FilesStatRequestSchema, { path: "x".repeat(17_000) })) };
  answers.length = 0;
  stream?.write(openFrame({ ...opening("/fairlead.v1.Files/Stat"), ...short, ...long }));
  await expect.poll(() => answers).toEqual(["message", "status"]);
});

/** A call that a gateway of before begins. */
function opening(method: string) {
  return {
    callId: "c",
    method,
    remainingMs: 10_000n,
    credit: 100_000n,
    traceparent: "",
    idempotencyKey: "",
    answerInStatus: false,
  };
}

test("a node two versions off is refused with both spans and the side to upgrade, and its presence says so", async () => {
  await using gateway = await openLinkGateway();
  for (const [protocol, behind] of [
    [{ min: 0, max: 1 }, "node"],
    [{ min: 4, max: 5 }, "gateway"],
  ] as const) {
    const faults: Fault[] = [];
    await using node = await openLinkNode(gateway, {
      protocol,
      onFault: (error) => {
        if (error instanceof Fault) faults.push(error);
      },
    });
    await expect.poll(() => node.status().state).toBe("waiting");
    expect(faults[0]).toMatchObject({
      code: "VERSION_UNSUPPORTED",
      hint: `upgrade the ${behind}`,
      details: { gateway: { min: 2, max: 3 }, node: protocol },
    });
    expect(node.status()).toMatchObject({ reason: "version_unsupported", nextStep: `upgrade the ${behind}` });
    expect(gateway.host.links.presence("devbox")).toMatchObject({
      state: "offline",
      reason: "version_unsupported",
    });
  }
  await using back = await openLinkNode(gateway, { protocol: { min: 1, max: 2 } });
  await expect.poll(() => back.status().state).toBe("online");
});
