import type { Fault } from "../fault/fault.ts";
import type { Encoded } from "./encoded.ts";
import type { Peer } from "./service.ts";

/** One connection of a server, the same object for every stream that came over it. */
export interface ServerConnection {
  /** Who connects, as far as the transport proved it. */
  readonly peer: Peer;
  /** Why a certificate that was shown did not count: `CERT_HAS_EXPIRED` …; undefined when none was shown or it counts. */
  readonly refusal: string | undefined;
  /** Aborts when the connection is gone. */
  readonly closed: AbortSignal;
  /** Ends the connection at once. */
  destroy(): void;
}

/** A two-way stream of encoded messages, below any service. The receiver is never paused. */
export interface RawStream {
  /** Sends a message; what keeps the sender from sending too much is its own affair. */
  write(message: Encoded): void;
  /** Bytes written that the transport has not taken yet. */
  readonly unsentCount: number;
  /** Every message in order, until the end. Set once, at once. */
  onMessage(listener: (message: Buffer) => void): void;
  /** Once, when the stream is over: with the fault, or with nothing after a clean end. */
  onClosed(listener: (fault: Fault | undefined) => void): void;
}

/** A raw stream as its server sees it. */
export interface ServerRawStream extends RawStream {
  readonly connection: ServerConnection;
  /** Text metadata, lower-case names. */
  readonly metadata: ReadonlyMap<string, string>;
  /** Ends it with a status. */
  end(fault?: Fault): void;
  /** Breaks it off: the peer sees `CANCELLED`, nothing that was written before is waited for. */
  reset(): void;
}

/** A raw stream as its client sees it. */
export interface ClientRawStream extends RawStream {
  /** No more messages from here. */
  end(): void;
  /** Breaks it off. */
  cancel(): void;
}

const rawMark: unique symbol = Symbol("raw");

/** A bidirectional method that works on the encoded messages themselves. */
export interface RawMethod {
  readonly [rawMark]: true;
  readonly accept: (stream: ServerRawStream) => void;
}

/** Marks an implementation as raw; only a gRPC server takes it. */
export function rawMethod(accept: (stream: ServerRawStream) => void): RawMethod {
  return { [rawMark]: true, accept };
}

/** Whether an implementation is raw. */
export function isRawMethod(implementation: unknown): implementation is RawMethod {
  return typeof implementation === "object" && implementation !== null && rawMark in implementation;
}
