import type { DescMethod, DescService, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import type { Principal } from "./principal.ts";

/** Who is at the other end of a call, as far as the transport proved it. */
export interface Peer {
  /** The address it connects from; empty over a local socket or a link. */
  readonly address: string;
  /** Its certificate when mutual TLS proved one: DER. */
  readonly certificate?: Uint8Array;
}

/** What a method's implementation gets beside the request. */
export interface CallContext {
  /** Aborts when the caller leaves, the deadline passes or the link ends; its reason is the fault. */
  readonly signal: AbortSignal;
  /** Names the call on both sides. */
  readonly callId: string;
  /** Milliseconds that were left when the call arrived. */
  readonly remainingMs: number;
  /** W3C trace context of the caller, when a well-formed one came. */
  readonly traceparent?: string;
  /** Repeats with the same key run once. */
  readonly idempotencyKey?: string;
  /** Text metadata of the call, lower-case names; empty over a link. */
  readonly metadata: ReadonlyMap<string, string>;
  /** Who calls. */
  readonly peer: Peer;
  /** Tells the caller that the call was taken on, before its first answer; absent over a link, which cannot. */
  readonly take?: () => void;
  /** Whom it acts for, where the service was given one that asks; else whoever may reach the socket. */
  readonly principal?: Principal;
}

/** A method as its implementer writes it. A generator that is left early is ended with `return`. */
export type MethodImplementation<M extends DescMethod> = M extends { methodKind: "unary" }
  ? (request: MessageShape<M["input"]>, context: CallContext) => Promise<MessageInitShape<M["output"]>>
  : M extends { methodKind: "server_streaming" }
    ? (
        request: MessageShape<M["input"]>,
        context: CallContext,
      ) => AsyncIterable<MessageInitShape<M["output"]>>
    : M extends { methodKind: "client_streaming" }
      ? (
          requests: AsyncIterable<MessageShape<M["input"]>>,
          context: CallContext,
        ) => Promise<MessageInitShape<M["output"]>>
      : (
          requests: AsyncIterable<MessageShape<M["input"]>>,
          context: CallContext,
        ) => AsyncIterable<MessageInitShape<M["output"]>>;

/** All methods of a service, as its implementer writes them. Methods left out answer `VERSION_UNSUPPORTED`. */
export type ServiceImplementation<S extends DescService> = {
  readonly [K in keyof S["method"]]?: MethodImplementation<S["method"][K]>;
};

/** What a caller may say beside the request. */
export interface CallOptions {
  /** Cancels the call; its reason reaches the other side. */
  readonly signal?: AbortSignal;
  /** Milliseconds until the call ends; the default and the range are those of `deadline.ts`. */
  readonly deadlineMs?: number;
  /** Repeats with the same key run once. */
  readonly idempotencyKey?: string;
  /** W3C trace context. */
  readonly traceparent?: string;
  /** Names the call; random by default. */
  readonly callId?: string;
  /** Hears once that the call was taken on, which its first answer says too, or that it has ended. Never over a link. */
  readonly onTaken?: () => void;
  /** The call moves 1 MiB or more: on a link it runs beside the control connection. */
  readonly bulk?: boolean;
}

/** A method as its caller sees it. Faults arrive as `Fault`; leaving a stream early cancels the call. */
export type MethodClient<M extends DescMethod> = M extends { methodKind: "unary" }
  ? (request: MessageInitShape<M["input"]>, options?: CallOptions) => Promise<MessageShape<M["output"]>>
  : M extends { methodKind: "server_streaming" }
    ? (
        request: MessageInitShape<M["input"]>,
        options?: CallOptions,
      ) => AsyncIterable<MessageShape<M["output"]>>
    : M extends { methodKind: "client_streaming" }
      ? (
          requests: AsyncIterable<MessageInitShape<M["input"]>>,
          options?: CallOptions,
        ) => Promise<MessageShape<M["output"]>>
      : (
          requests: AsyncIterable<MessageInitShape<M["input"]>>,
          options?: CallOptions,
        ) => AsyncIterable<MessageShape<M["output"]>>;

/** A typed client of a service, whatever carries its calls. */
export type Client<S extends DescService> = {
  readonly [K in keyof S["method"]]: MethodClient<S["method"][K]>;
};

/** A service with its implementation, as a server takes it. */
export interface ServedService {
  readonly service: DescService;
  readonly implementation: Readonly<Record<string, unknown>>;
}

/** Pairs a service with its implementation, type-checked. */
export function serve<S extends DescService>(
  service: S,
  implementation: ServiceImplementation<S>,
): ServedService {
  return { service, implementation };
}
