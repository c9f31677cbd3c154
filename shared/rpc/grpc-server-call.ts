import type { Http2Session, ServerHttp2Stream } from "node:http2";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { Metadata, status, type ServerDuplexStream } from "@grpc/grpc-js";
import { Fault } from "../fault/fault.ts";
import type { Clock } from "../lifetime/clock.ts";
import { freeAlone } from "./chunk-memory.ts";
import { noDeadline } from "./deadline.ts";
import type { ArrivedCall, IncomingCall } from "./dispatch.ts";
import { encodedOf, type Encoded } from "./encoded.ts";
import { toGrpcStatus } from "./fault-wire.ts";
import { findServerStream } from "./http2-streams.ts";
import type { ServerConnection, ServerRawStream } from "./raw-stream.ts";
import type { Peer } from "./service.ts";
import { newCallId } from "./transport.ts";

/** A call as grpc-js hands it over: every method is registered as bidirectional over plain bytes. */
export type GrpcCall = ServerDuplexStream<Buffer, Encoded>;

/** Names of what travels beside a call. */
export const callHeaders = {
  callId: "fairlead-call-id",
  idempotencyKey: "fairlead-idempotency-key",
  traceparent: "traceparent",
} as const;

const traceparentForm = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/;

/** A W3C trace context when it is well formed (and so at most 128 characters), else undefined. */
export function readTraceparent(text: string | undefined): string | undefined {
  return text !== undefined && traceparentForm.test(text) ? text : undefined;
}

/** The text metadata of a call. */
export function textMetadata(metadata: Metadata): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  for (const [name, value] of Object.entries(metadata.getMap())) {
    if (typeof value === "string") texts.set(name, value);
  }
  return texts;
}

/** Who calls: the address, and the certificate when mutual TLS proved it. */
export function peerOf(call: GrpcCall): Peer {
  const address = call.getPeer();
  const { sslPeerCertificate } = call.getAuthContext();
  return {
    address: address === "unknown" ? "" : address,
    ...(sslPeerCertificate ? { certificate: sslPeerCertificate.raw } : {}),
  };
}

/** What the time limit of a grpc-js call is made of. */
export function toArrivedCall(call: GrpcCall, path: string, clock: Clock): ArrivedCall {
  const deadline = call.getDeadline();
  const deadlineAt = typeof deadline === "number" ? deadline : deadline.getTime();
  return {
    path,
    callId: textMetadata(call.metadata).get(callHeaders.callId) ?? newCallId(),
    remainingMs: Number.isFinite(deadlineAt) ? Math.max(1, deadlineAt - Date.now()) : noDeadline,
    signal: cancelSignalOf(call),
    clock,
  };
}

/** What the dispatcher needs of a grpc-js call. */
export function toIncomingCall(call: GrpcCall, arrived: ArrivedCall, signal: AbortSignal): IncomingCall {
  const metadata = textMetadata(call.metadata);
  return {
    path: arrived.path,
    requests: requestsOf(call, signal),
    callId: arrived.callId,
    remainingMs: arrived.remainingMs,
    traceparent: readTraceparent(metadata.get(callHeaders.traceparent)),
    idempotencyKey: metadata.get(callHeaders.idempotencyKey),
    metadata,
    peer: peerOf(call),
    take: () => sendHeaders(call),
    signal,
  };
}

/** An answer sends them by itself; whoever waits for it hears of them at once. */
function sendHeaders(call: GrpcCall): void {
  if (!call.cancelled && !call.destroyed) call.sendMetadata(new Metadata());
}

async function* requestsOf(call: GrpcCall, signal: AbortSignal): AsyncGenerator<Buffer> {
  try {
    yield* call.iterator({ destroyOnReturn: false });
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  }
}

/** Aborts when the caller leaves before the end. */
function cancelSignalOf(call: GrpcCall): AbortSignal {
  const controller = new AbortController();
  call.once("cancelled", () => controller.abort(new Fault("CANCELLED", "the caller has left")));
  return controller.signal;
}

/**
 * Writes a message. grpc-js copies it into a frame of its own, which nobody needs once it was sent: its memory is given
 * back then, which a server hears of (a client's calls say so before it is true).
 */
function writeFrame(call: GrpcCall, message: Encoded): boolean {
  if (message.byteLength < minFrameBytes) return call.write(message);
  let frame: Uint8Array | undefined;
  const { length, byteLength } = message;
  const tracked: Encoded = {
    length,
    byteLength,
    copy: (target, targetStart) => {
      frame = target;
      return message.copy(target, targetStart);
    },
  };
  return call.write(tracked, (error?: Error | null) => {
    if (!error && frame) freeAlone(frame);
  });
}

const minFrameBytes = 32 * 1024;

/** Writes one answer; resolves when more may be written, also when the call is over. */
export async function writeAnswer(call: GrpcCall, message: Encoded): Promise<void> {
  if (call.cancelled || call.destroyed || writeFrame(call, message)) return;
  await new Promise<void>((resolve) => {
    // `drain` never comes after a reset: the end of the call ends the wait too.
    const done = (): void => {
      call.off("drain", done);
      call.off("cancelled", done);
      call.off("close", done);
      resolve();
    };
    call.once("drain", done);
    call.once("cancelled", done);
    call.once("close", done);
  });
}

/** Ends a call with the status of `error`. */
export function failCall(call: GrpcCall, error: unknown): void {
  if (!call.cancelled) call.emit("error", toGrpcStatus(error));
}

const connections = new WeakMap<Http2Session, ServerConnection>();

/** The connection of a call, which came over `socket`; undefined when it is gone already. */
export function connectionOf(call: GrpcCall, socket: Socket | undefined): ServerConnection | undefined {
  const session = findServerStream(textMetadata(call.metadata))?.session;
  if (!session || session.destroyed) return undefined;
  const known = connections.get(session);
  if (known) return known;
  const connection = toConnection(session, { peer: peerOf(call), socket });
  connections.set(session, connection);
  return connection;
}

interface ConnectionParts {
  readonly peer: Peer;
  readonly socket: Socket | undefined;
}

/**
 * A session that waits for a write to a peer that has just died never closes, and hears of nothing more: the socket
 * below it says when it is gone, and is ended with it.
 */
function toConnection(session: Http2Session, { peer, socket }: ConnectionParts): ServerConnection {
  const closed = new AbortController();
  const onClose = (): void => closed.abort(new Fault("CANCELLED", "the connection is gone"));
  session.once("close", onClose);
  socket?.once("close", onClose);
  return {
    peer,
    refusal: peer.certificate ? undefined : refusalOf(session),
    closed: closed.signal,
    destroy: () => {
      session.destroy();
      // Not below the session's own end, which may run inside of a callback of the socket.
      setImmediate(() => void socket?.destroy());
    },
  };
}

function refusalOf(session: Http2Session): string | undefined {
  // A session shows its socket through a proxy that hides members from `in`, and hands them out all the same.
  const socket = session.socket as Partial<TLSSocket>;
  const shown = socket.getPeerCertificate?.();
  if (!shown || Object.keys(shown).length === 0) return undefined;
  const error: unknown = socket.authorizationError;
  return typeof error === "string" ? error : "UNKNOWN";
}

/** A peer that goes on sending on a stream which has ended is cut off after so long, in milliseconds. */
const ignoredEndMs = 1000;

/** Resets a stream that its peer does not end as well. */
async function resetIfIgnored(http2Stream: ServerHttp2Stream | undefined, clock: Clock): Promise<void> {
  if (!http2Stream || http2Stream.closed) return;
  const closed = new AbortController();
  http2Stream.once("close", () => closed.abort());
  await clock.sleep(ignoredEndMs, { signal: closed.signal }).then(
    () => http2Stream.close(resetCode),
    () => undefined,
  );
}

/** `CANCEL` of HTTP/2. */
const resetCode = 8;

/** What a raw stream stands on. */
export interface RawStreamParts {
  readonly connection: ServerConnection;
  readonly clock: Clock;
}

/** A grpc-js call as a raw stream; it is read from now on and never paused. */
export function toServerRawStream(call: GrpcCall, { connection, clock }: RawStreamParts): ServerRawStream {
  const metadata = textMetadata(call.metadata);
  const http2Stream = findServerStream(metadata);
  let over = false;
  return {
    connection,
    metadata,
    write: (message) => {
      if (!over && !call.cancelled) writeFrame(call, message);
    },
    get unsentCount() {
      return call.writableLength;
    },
    onMessage: (listener) => {
      call.on("data", listener);
    },
    onClosed: (listener) => {
      const ended = (fault: Fault | undefined): void => {
        if (over) return;
        over = true;
        listener(fault);
      };
      call.once("end", () => ended(undefined));
      call.once("cancelled", () => ended(new Fault("CANCELLED", "the peer broke the stream off")));
    },
    end: (fault) => {
      if (fault) failCall(call, fault);
      else call.end();
      void resetIfIgnored(http2Stream, clock);
    },
    reset: () => {
      http2Stream?.close(resetCode);
    },
  };
}

/** What a caller gets whose connection vanished while its call arrived. */
export const goneStatus: { readonly code: status; readonly details: string; readonly metadata: Metadata } = {
  code: status.UNAVAILABLE,
  details: "the connection is gone",
  metadata: new Metadata(),
};

/** Bytes as grpc-js hands them over and takes them: as they are. */
export const identity = {
  serialize: (message: Encoded): Buffer => message as Buffer,
  deserialize: (bytes: Buffer): Buffer => encodedOf(bytes) as Buffer,
};
