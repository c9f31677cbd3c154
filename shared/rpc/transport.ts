import { randomFillSync } from "node:crypto";
import type { DescMessage, DescMethod, DescService, MessageInitShape } from "@bufbuild/protobuf";
import { faultFromError } from "../fault/fault-from-error.ts";
import { Fault } from "../fault/fault.ts";
import { decodeMessage, encodeMessage } from "./codec.ts";
import { resolveDeadlineMs } from "./deadline.ts";
import type { Encoded } from "./encoded.ts";
import { OneMessage } from "./one-message.ts";
import type { CallOptions, Client } from "./service.ts";

/** A call on its way out, below the typed client. */
export interface OutgoingCall {
  readonly method: DescMethod;
  /** `/fairlead.v1.Files/Read`. */
  readonly path: string;
  /** Encoded messages of the request, in order. Never read twice, unless it is a `OneMessage`. */
  readonly requests: AsyncIterable<Encoded>;
  readonly callId: string;
  /** Milliseconds until the call ends, or `noDeadline`; the transport holds it. */
  readonly remainingMs: number;
  readonly traceparent: string | undefined;
  readonly idempotencyKey: string | undefined;
  /** It moves 1 MiB or more. */
  readonly bulk: boolean;
  /** As `CallOptions.onTaken`. */
  readonly onTaken?: (() => void) | undefined;
  /** The caller's; its reason is why the call is cancelled. */
  readonly signal: AbortSignal | undefined;
}

/**
 * What carries calls. Answers come as encoded messages; a failure is thrown as a Fault. The call begins when the first
 * answer is asked for; leaving the answers early cancels it.
 */
export type CallTransport = (call: OutgoingCall) => AsyncIterable<Uint8Array>;

/** The full name of a method, as it travels. */
export function methodPath(method: DescMethod): string {
  return `/${method.parent.typeName}/${method.name}`;
}

/** Randomness is fetched for many names at once: asking the system for it costs more than the rest of a short call. */
const randomness: Buffer = Buffer.allocUnsafeSlow(16 * 256);
let usedBytes: number = randomness.byteLength;

/** A random name for a call: 128 bits, hexadecimal. */
export function newCallId(): string {
  if (usedBytes === randomness.byteLength) {
    randomFillSync(randomness);
    usedBytes = 0;
  }
  usedBytes += 16;
  return randomness.toString("hex", usedBytes - 16, usedBytes);
}

type Requests = AsyncIterable<MessageInitShape<DescMessage>>;
type MethodFunction = (request: MessageInitShape<DescMessage> | Requests, options?: CallOptions) => unknown;

/** A typed client of `service` whose calls `transport` carries. */
export function createClient<S extends DescService>(service: S, transport: CallTransport): Client<S> {
  const methods: Record<string, MethodFunction> = {};
  for (const method of service.methods) methods[method.localName] = createMethod(method, transport);
  // The keys are the service's methods and each function has its method's shape; only the descriptor knows that.
  return methods as unknown as Client<S>;
}

function createMethod(method: DescMethod, transport: CallTransport): MethodFunction {
  const path = methodPath(method);
  const streamsRequests = method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming";
  const answers = (request: MessageInitShape<DescMessage> | Requests, options: CallOptions = {}) => {
    const requests = streamsRequests
      ? encodeEach(method.input, request as Requests)
      : new OneMessage(encodeGiven(method.input, request as MessageInitShape<DescMessage>));
    return transport(toOutgoingCall(method, { path, requests, options }));
  };
  if (method.methodKind === "unary" || method.methodKind === "client_streaming") {
    return async (request, options) => {
      try {
        return decodeMessage(method.output, await onlyAnswer(answers(request, options), path));
      } catch (error) {
        throw asFault(error, options?.signal);
      }
    };
  }
  return (request, options) =>
    decodeEach(method.output, { begin: () => answers(request, options), signal: options?.signal });
}

/** A caller's own reason may be a bare abort; whoever awaits the call gets a Fault. */
function asFault(error: unknown, signal: AbortSignal | undefined): unknown {
  return signal?.aborted && error === signal.reason ? faultFromError(error) : error;
}

interface CallParts {
  readonly path: string;
  readonly requests: AsyncIterable<Encoded>;
  readonly options: CallOptions;
}

function toOutgoingCall(method: DescMethod, { path, requests, options }: CallParts): OutgoingCall {
  return {
    method,
    path,
    requests,
    callId: options.callId ?? newCallId(),
    remainingMs: resolveDeadlineMs(options.deadlineMs),
    traceparent: options.traceparent,
    idempotencyKey: options.idempotencyKey,
    bulk: options.bulk ?? false,
    onTaken: options.onTaken,
    signal: options.signal,
  };
}

async function* encodeEach(schema: DescMessage, messages: Requests): AsyncGenerator<Encoded> {
  for await (const message of messages) yield encodeGiven(schema, message);
}

const unencodable = /^cannot encode field (?:[\w.]+\.)?(\w+) to binary: (.*)$/s;

/** A value that its field cannot hold (a fraction, a negative size) is the caller's: `INVALID_ARGUMENT` names the field. */
function encodeGiven(schema: DescMessage, message: MessageInitShape<DescMessage>): Encoded {
  try {
    return encodeMessage(schema, message);
  } catch (error) {
    const [, name, why] = unencodable.exec(error instanceof Error ? error.message : "") ?? [];
    if (name === undefined) throw error;
    const field = name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
    throw new Fault("INVALID_ARGUMENT", `${field} cannot be sent: ${why}`, {
      details: { field },
      cause: error,
    });
  }
}

interface Answers {
  readonly begin: () => AsyncIterable<Uint8Array>;
  readonly signal: AbortSignal | undefined;
}

/** Begins the call when the first answer is asked for, so that a refusal arrives where answers are awaited. */
async function* decodeEach(schema: DescMessage, { begin, signal }: Answers): AsyncGenerator<unknown> {
  try {
    for await (const bytes of begin()) yield decodeMessage(schema, bytes);
  } catch (error) {
    throw asFault(error, signal);
  }
}

async function onlyAnswer(answers: AsyncIterable<Uint8Array>, path: string): Promise<Uint8Array> {
  let only: Uint8Array | undefined;
  for await (const bytes of answers) {
    if (only) throw new Fault("INTERNAL", `${path} answered with more than one message`);
    only = bytes;
  }
  if (!only) throw new Fault("INTERNAL", `${path} answered without a message`);
  return only;
}
