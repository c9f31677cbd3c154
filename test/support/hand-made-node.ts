import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import type { Fault } from "../../shared/fault/fault.ts";
import {
  LinkPurpose,
  NodeLinkControlRequestSchema,
  NodeLinkControlResponseSchema,
  type HelloAccepted,
  type HelloSchema,
  type NodeLinkControlResponse,
} from "../../shared/gen/fairlead/v1/link_pb.ts";
import { decodeMessage } from "../../shared/rpc/codec.ts";
import { encodedOf, type Encoded } from "../../shared/rpc/encoded.ts";
import { openGrpcClient, type GrpcClient } from "../../shared/rpc/grpc-client.ts";
import type { ClientRawStream } from "../../shared/rpc/raw-stream.ts";
import { parkedFrame, readCallerFrame, type CallerFrame } from "../../shared/rpc/reverse/frames.ts";
import type { LinkGateway } from "../contract/rpc/open-link.ts";

type Said = NonNullable<MessageInitShape<typeof NodeLinkControlRequestSchema>["kind"]>;

/** A stream that was parked by hand. */
export interface HandMadeStream {
  /** What the gateway wrote on it so far. */
  readonly frames: CallerFrame[];
  /** Resolves when it is over: with the fault, or with nothing after a clean end. */
  readonly closed: Promise<Fault | undefined>;
  write(frame: Encoded): void;
}

/** A node that says what a test tells it, over the client of the project. */
export interface HandMadeNode extends AsyncDisposable {
  readonly client: GrpcClient;
  /** What the gateway said on the control stream so far. */
  readonly heard: NodeLinkControlResponse["kind"][];
  /** Resolves with what the gateway accepted; rejects when the control stream ends before. */
  readonly accepted: Promise<HelloAccepted>;
  /** Resolves when the control stream is over. */
  readonly closed: Promise<Fault | undefined>;
  say(kind: Said): void;
  park(generation: bigint): HandMadeStream;
}

/** What a hand-made node says of itself. */
export interface HandMadeOptions {
  readonly name?: string;
  readonly hello?: MessageInitShape<typeof HelloSchema>;
}

/** Dials a gateway and says hello. */
export async function dialByHand(gateway: LinkGateway, options: HandMadeOptions = {}): Promise<HandMadeNode> {
  const tls = await gateway.authority.client(options.name ?? "devbox");
  const client = openGrpcClient({ address: gateway.server.address, security: () => tls });
  const control = client.openStream("/fairlead.v1.NodeLink/Control");
  const heard: NodeLinkControlResponse["kind"][] = [];
  const accepted = Promise.withResolvers<HelloAccepted>();
  accepted.promise.catch(() => undefined);
  control.onMessage((bytes) => {
    const { kind } = decodeMessage(NodeLinkControlResponseSchema, bytes);
    heard.push(kind);
    if (kind.case === "accepted") accepted.resolve(kind.value);
  });
  const closed = endOf(control);
  void closed.then((fault) => accepted.reject(fault ?? new Error("the control stream ended")));
  const say = (kind: Said): void => {
    control.write(
      encodedOf(toBinary(NodeLinkControlRequestSchema, create(NodeLinkControlRequestSchema, { kind }))),
    );
  };
  say({ case: "hello", value: { ...plainHello, ...options.hello } });
  return {
    client,
    heard,
    accepted: accepted.promise,
    closed,
    say,
    park: (generation) => park(client, generation),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

/** A hello that every gateway of today accepts. */
export const plainHello: {
  readonly protocolMin: number;
  readonly protocolMax: number;
  readonly bootId: string;
  readonly purpose: LinkPurpose;
  readonly methods: string[];
} = {
  protocolMin: 2,
  protocolMax: 3,
  bootId: "by-hand",
  purpose: LinkPurpose.CONTROL,
  methods: ["/fairlead.v1.Files/Stat", "/fairlead.v1.Files/Read", "/fairlead.v1.Files/Remove"],
};

function park(client: GrpcClient, generation: bigint): HandMadeStream {
  const stream = client.openStream("/fairlead.v1.NodeLink/Serve");
  const frames: CallerFrame[] = [];
  stream.onMessage((bytes) => void frames.push(readCallerFrame(bytes)));
  const closed = endOf(stream);
  stream.write(parkedFrame(generation));
  return { frames, closed, write: (frame) => stream.write(frame) };
}

function endOf(stream: ClientRawStream): Promise<Fault | undefined> {
  return new Promise((resolve) => {
    stream.onClosed(resolve);
  });
}
