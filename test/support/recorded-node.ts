import { readFile } from "node:fs/promises";
import type { Fault } from "../../shared/fault/fault.ts";
import { NodeLinkControlResponseSchema } from "../../shared/gen/fairlead/v1/link_pb.ts";
import { decodeMessage } from "../../shared/rpc/codec.ts";
import { encodedOf, type Encoded } from "../../shared/rpc/encoded.ts";
import { openGrpcClient } from "../../shared/rpc/grpc-client.ts";
import { readCallerFrame } from "../../shared/rpc/reverse/frames.ts";
import type { PairedIdentity } from "./paired-identity.ts";

interface Recording {
  readonly hello: string;
  readonly parked?: string;
  readonly pong?: string;
  /** What it says on the control stream after its hello. */
  readonly more?: string;
  readonly answers?: Readonly<Record<string, readonly string[]>>;
}

/** A node of another version: it writes what was recorded of one, byte for byte. */
export interface RecordedNode extends AsyncDisposable {
  /** Resolves when its control stream is over. */
  readonly closed: Promise<Fault | undefined>;
  /** The protocol version that the gateway chose; 0 before. */
  readonly protocol: number;
  /** Full names of the methods that were called, in order. */
  readonly called: readonly string[];
}

async function readRecording(name: string): Promise<Recording> {
  const file = new URL(`../fixtures/link/${name}.json`, import.meta.url);
  // The fixture's own shape.
  return JSON.parse(await readFile(file, "utf8")) as Recording;
}

function bytesIn(hex: string | undefined): Encoded {
  return encodedOf(Buffer.from(hex ?? "", "hex"));
}

/** Dials with what `test/fixtures/link/<name>.json` holds. */
export async function playRecordedNode(name: string, identity: PairedIdentity): Promise<RecordedNode> {
  const recording = await readRecording(name);
  const client = openGrpcClient({ address: identity.address, security: identity.tls });
  const called: string[] = [];
  const state = { protocol: 0 };
  const park = (): void => {
    const stream = client.openStream("/fairlead.v1.NodeLink/Serve");
    stream.onMessage((bytes) => {
      const frame = readCallerFrame(bytes);
      if (frame.case !== "open") return;
      called.push(frame.value.method);
      for (const written of recording.answers?.[frame.value.method] ?? []) stream.write(bytesIn(written));
    });
    stream.onClosed(() => undefined);
    stream.write(bytesIn(recording.parked));
  };
  const control = client.openStream("/fairlead.v1.NodeLink/Control");
  control.onMessage((bytes) => {
    const { kind } = decodeMessage(NodeLinkControlResponseSchema, bytes);
    if (kind.case === "ping") control.write(bytesIn(recording.pong));
    if (kind.case === "moreStreams") park();
    if (kind.case !== "accepted") return;
    state.protocol = kind.value.protocol;
    park();
    if (recording.more !== undefined) control.write(bytesIn(recording.more));
  });
  const closed = new Promise<Fault | undefined>((resolve) => {
    control.onClosed(resolve);
  });
  control.write(bytesIn(recording.hello));
  return {
    closed,
    called,
    get protocol() {
      return state.protocol;
    },
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}
