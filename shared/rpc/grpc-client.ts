import type { DescService } from "@bufbuild/protobuf";
import { Client as Channel, Metadata, type ClientDuplexStream } from "@grpc/grpc-js";
import { Fault } from "../fault/fault.ts";
import { systemClock, type Clock } from "../lifetime/clock.ts";
import { createDial, type ClientSecurity, type Dial } from "./client-credentials.ts";
import type { Encoded } from "./encoded.ts";
import { watchForExcessPings } from "./excess-pings.ts";
import { faultFromGrpc, isGrpcFailure } from "./fault-wire.ts";
import { createGrpcTransport } from "./grpc-client-call.ts";
import { identity } from "./grpc-server-call.ts";
import { connectTimeoutMs, connectionWindowBytes, maxEnvelopeBytes } from "./limits.ts";
import type { ClientRawStream } from "./raw-stream.ts";
import type { Client } from "./service.ts";
import { createClient } from "./transport.ts";

/** What `openGrpcClient` takes. */
export interface GrpcClientOptions {
  /** `host:port` or `unix:/path`. */
  readonly address: string;
  readonly security: ClientSecurity;
  /** How long connecting may take in all, in milliseconds; 20 s by default. */
  readonly connectTimeoutMs?: number;
  /** Text metadata that goes with every call. */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly clock?: Clock;
  /** Something on the way ends the connection because it has counted too many pings. */
  readonly onExcessPings?: () => void;
}

/**
 * One connection to a gRPC server, dialled by the first call and never again: once it is gone, calls fail with
 * `GATEWAY_UNREACHABLE` and whoever wants another opens another client.
 */
export interface GrpcClient extends AsyncDisposable {
  /** A typed client of a service over this connection. */
  client<S extends DescService>(service: S): Client<S>;
  /** A raw stream of a bidirectional method. */
  openStream(path: string, metadata?: Readonly<Record<string, string>>): ClientRawStream;
  /** Ends the connection at once; calls end with `fault`. */
  destroy(fault: Fault): void;
}

const channelOptions = {
  // Two channels with equal options would be one connection otherwise.
  "grpc.use_local_subchannel_pool": 1,
  "grpc.enable_retries": 0,
  "grpc.enable_channelz": 0,
  "grpc.enable_http_proxy": 0,
  "grpc.service_config_disable_resolution": 1,
  "grpc.max_receive_message_length": maxEnvelopeBytes,
  "grpc.max_send_message_length": maxEnvelopeBytes,
  // One number for the stream's and the connection's window; the credit of the calls bounds what is really sent.
  "grpc-node.flow_control_window": connectionWindowBytes,
  // The authority is that of the certificate's pin, not of the name that was dialled.
  "grpc.default_authority": "fairlead",
};

/** Opens a client; nothing is dialled before the first call. */
export function openGrpcClient(options: GrpcClientOptions): GrpcClient {
  const { address, clock = systemClock } = options;
  const dial = createDial(options.security);
  const target = address.startsWith("unix:") ? address : `dns:${address}`;
  const channel = new Channel(target, dial.credentials, channelOptions);
  const ended = new AbortController();
  const destroy = (fault: Fault): void => {
    if (ended.signal.aborted) return;
    ended.abort(fault);
    dial.destroy(fault);
    channel.close();
  };
  const limitConnect = onceOnly(() => {
    const timeoutMs = options.connectTimeoutMs ?? connectTimeoutMs;
    void giveUpWhenSilent(channel, { clock, timeoutMs, signal: ended.signal }).then((connected) => {
      if (!connected) destroy(connectTimeoutFault(address, timeoutMs));
    });
  });
  const faultOf = (error: unknown): unknown => toClientFault(error, address, { dial, ended: ended.signal });
  const texts = { ...options.metadata, ...watchForExcessPings(options.onExcessPings, ended.signal) };
  const transport = createGrpcTransport(channel, { faultOf, begin: limitConnect, texts });
  return {
    client: (service) => createClient(service, transport),
    openStream: (path, metadata = {}) => {
      limitConnect();
      return toClientRawStream(openCall(channel, path, { ...texts, ...metadata }), faultOf);
    },
    destroy,
    [Symbol.asyncDispose]: async () => destroy(new Fault("CANCELLED", "the connection was closed")),
  };
}

function onceOnly(run: () => void): () => void {
  let ran = false;
  return () => {
    if (ran) return;
    ran = true;
    run();
  };
}

interface ConnectLimit {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/** Whether the channel was ready, or had failed by itself, in time. The library has no such limit of its own. */
async function giveUpWhenSilent(channel: Channel, limit: ConnectLimit): Promise<boolean> {
  const settled = new AbortController();
  const onSettled = (): void => settled.abort();
  watchUntilSettled(channel, onSettled);
  const signal = AbortSignal.any([limit.signal, settled.signal]);
  try {
    await limit.clock.sleep(limit.timeoutMs, { signal });
    return false;
  } catch {
    return true;
  }
}

const readyState = 2;
const failureState = 3;
const shutdownState = 4;

function watchUntilSettled(channel: Channel, onSettled: () => void): void {
  const inner = channel.getChannel();
  const look = (): void => {
    const state: number = inner.getConnectivityState(false);
    if (state === readyState || state === failureState || state === shutdownState) onSettled();
    else inner.watchConnectivityState(state, Infinity, (error) => (error ? onSettled() : look()));
  };
  look();
}

function connectTimeoutFault(address: string, timeoutMs: number): Fault {
  return new Fault("GATEWAY_UNREACHABLE", `${address} did not answer within ${timeoutMs} ms`, {
    details: { reason: "connect_timeout", target: address },
  });
}

interface ClientState {
  readonly dial: Dial;
  readonly ended: AbortSignal;
}

function toClientFault(error: unknown, address: string, state: ClientState): unknown {
  if (state.ended.aborted) return state.ended.reason;
  if (state.dial.fault) return state.dial.fault;
  return isGrpcFailure(error) ? faultFromGrpc(error, address) : error;
}

type RawCall = ClientDuplexStream<Encoded, Buffer>;

function openCall(channel: Channel, path: string, texts: Readonly<Record<string, string>>): RawCall {
  const metadata = new Metadata();
  for (const [name, text] of Object.entries(texts)) metadata.set(name, text);
  return channel.makeBidiStreamRequest(path, identity.serialize, identity.deserialize, metadata, {});
}

function toClientRawStream(call: RawCall, faultOf: (error: unknown) => unknown): ClientRawStream {
  let over = false;
  return {
    write: (message) => {
      if (!over) call.write(message);
    },
    get unsentCount() {
      return call.writableLength;
    },
    onMessage: (listener) => {
      call.on("data", listener);
    },
    onClosed: (listener) => {
      const ended = (fault: unknown): void => {
        if (over) return;
        over = true;
        listener(fault instanceof Fault ? fault : undefined);
      };
      // A call can fail twice, once more as it is torn down; an error that nobody hears would end the process.
      call.on("error", (error) => ended(faultOf(error)));
      call.once("status", ({ code }) => {
        if (code === 0) ended(undefined);
      });
    },
    end: () => void call.end(),
    cancel: () => call.cancel(),
  };
}
