import { Metadata, type CallOptions, type Client as Channel, type ClientDuplexStream } from "@grpc/grpc-js";
import { faultFromError } from "../fault/fault-from-error.ts";
import type { Encoded } from "./encoded.ts";
import { callHeaders, identity } from "./grpc-server-call.ts";
import type { CallTransport, OutgoingCall } from "./transport.ts";

type GrpcCall = ClientDuplexStream<Encoded, Buffer>;

/** What a transport over a channel needs of its client. */
export interface GrpcTransportOptions {
  /** Translates what grpc-js says into a Fault. */
  readonly faultOf: (error: unknown) => unknown;
  /** Called before each call. */
  readonly begin: () => void;
  /** Text metadata that goes with every call. */
  readonly texts: Readonly<Record<string, string>>;
}

/** Carries calls over one grpc-js channel, every kind as a bidirectional stream of plain bytes. */
export function createGrpcTransport(channel: Channel, options: GrpcTransportOptions): CallTransport {
  return async function* carry(outgoing: OutgoingCall) {
    outgoing.signal?.throwIfAborted();
    options.begin();
    const call = openCall(channel, outgoing, options.texts);
    const sending = sendAll(call, outgoing.requests);
    const taken = once(outgoing.onTaken);
    call.once("metadata", taken);
    const onAbort = (): void => call.cancel();
    outgoing.signal?.addEventListener("abort", onAbort, { once: true });
    let ended = false;
    try {
      yield* call.iterator({ destroyOnReturn: false });
      ended = true;
    } catch (error) {
      ended = true;
      throw reasonOf(error, outgoing, { sendError: sending.error, faultOf: options.faultOf });
    } finally {
      outgoing.signal?.removeEventListener("abort", onAbort);
      taken();
      if (!ended) leave(call);
    }
  };
}

function once(tell: (() => void) | undefined): () => void {
  let isTold = false;
  return () => {
    if (!isTold) tell?.();
    isTold = true;
  };
}

function openCall(
  channel: Channel,
  outgoing: OutgoingCall,
  texts: Readonly<Record<string, string>>,
): GrpcCall {
  const metadata = new Metadata();
  for (const [name, text] of Object.entries(texts)) metadata.set(name, text);
  metadata.set(callHeaders.callId, outgoing.callId);
  if (outgoing.idempotencyKey) metadata.set(callHeaders.idempotencyKey, outgoing.idempotencyKey);
  if (outgoing.traceparent) metadata.set(callHeaders.traceparent, outgoing.traceparent);
  const options: CallOptions = Number.isFinite(outgoing.remainingMs)
    ? { deadline: Date.now() + outgoing.remainingMs }
    : {};
  return channel.makeBidiStreamRequest(
    outgoing.path,
    identity.serialize,
    identity.deserialize,
    metadata,
    options,
  );
}

/** Sends the request's messages as fast as the call takes them; a failure of their source cancels the call. */
function sendAll(call: GrpcCall, requests: AsyncIterable<Encoded>): { error: unknown } {
  const result: { error: unknown } = { error: undefined };
  let over = false;
  call.once("status", () => {
    over = true;
  });
  const send = async (): Promise<void> => {
    for await (const message of requests) {
      if (over) return;
      if (!call.write(message)) await writable(call);
      if (over) return;
    }
    call.end();
  };
  send().catch((error: unknown) => {
    if (over) return;
    result.error = error;
    call.cancel();
  });
  return result;
}

function writable(call: GrpcCall): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      call.off("drain", done);
      call.off("status", done);
      resolve();
    };
    call.once("drain", done);
    call.once("status", done);
  });
}

interface Ending {
  readonly sendError: unknown;
  readonly faultOf: (error: unknown) => unknown;
}

function reasonOf(error: unknown, { signal }: OutgoingCall, ending: Ending): unknown {
  if (signal?.aborted) return faultFromError(signal.reason);
  return ending.sendError ?? ending.faultOf(error);
}

/** The consumer left: the server hears of it, and the error that this raises here is nobody's. */
function leave(call: GrpcCall): void {
  call.on("error", () => undefined);
  call.cancel();
}
