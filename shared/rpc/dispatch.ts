import type { DescMessage, DescMethod, MessageInitShape } from "@bufbuild/protobuf";
import { Fault } from "../fault/fault.ts";
import { raceEach, raceSignal, startDeadline, type Clock, type Deadline } from "../lifetime/clock.ts";
import { decodeMessage, encodeMessage } from "./codec.ts";
import type { Encoded } from "./encoded.ts";
import { oneMessageOf } from "./one-message.ts";
import type { CallContext, Peer, ServedService } from "./service.ts";
import { methodPath } from "./transport.ts";

/** A call as it arrives, whatever carried it. */
export interface IncomingCall {
  readonly path: string;
  /** Encoded messages of the request. */
  readonly requests: AsyncIterable<Uint8Array>;
  readonly callId: string;
  /** Milliseconds until the deadline, or `noDeadline`. */
  readonly remainingMs: number;
  readonly traceparent: string | undefined;
  readonly idempotencyKey: string | undefined;
  readonly metadata: ReadonlyMap<string, string>;
  readonly peer: Peer;
  /** As `CallContext.take`. */
  readonly take?: () => void;
  /** Aborts when the caller left and at the deadline, with the fault that says why. */
  readonly signal: AbortSignal;
  /** How long the implementation is waited for; `signal` when it is not said. Later for whoever must know how it ended. */
  readonly patience?: AbortSignal;
}

/** What the time limit of a call that arrived is made of. */
export interface ArrivedCall {
  readonly path: string;
  readonly callId: string;
  /** Milliseconds until the deadline, or `noDeadline`. */
  readonly remainingMs: number;
  /** Aborts when the caller left. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
}

/**
 * The signal of a call that arrived: the caller's, and `DEADLINE_EXCEEDED` (stage `running`) at its deadline. Disposed
 * when the call ends.
 */
export function startCallDeadline(call: ArrivedCall): Deadline {
  const { remainingMs, signal, clock } = call;
  if (!Number.isFinite(remainingMs)) return { signal, [Symbol.dispose]: () => undefined };
  return startDeadline({ timeoutMs: remainingMs, signal, clock, fault: () => callLateFault(call) });
}

/** What a call gets that was running when its time was over. */
export function callLateFault({
  path,
  callId,
  remainingMs,
}: Pick<IncomingCall, "path" | "callId" | "remainingMs">): Fault {
  return new Fault("DEADLINE_EXCEEDED", `${path} did not end within ${remainingMs} ms`, {
    details: { stage: "running", callId },
  });
}

/** Finds and runs the implementations of some services. */
export interface Dispatcher {
  /** Full names of the methods that are implemented, sorted. */
  readonly methods: readonly string[];
  /** The method of that full name, if it is implemented. */
  find(path: string): DescMethod | undefined;
  /**
   * Runs a call; its failure is thrown. It ends when its signal (or its patience) aborts, also when the implementation
   * does not heed that.
   * A method that is not implemented fails with `VERSION_UNSUPPORTED`.
   */
  answer(call: IncomingCall): AsyncIterable<Encoded>;
}

type Implementation = (request: unknown, context: CallContext) => unknown;
type Run = (call: IncomingCall, context: CallContext) => AsyncIterable<Encoded>;

interface Entry {
  readonly method: DescMethod;
  readonly run: Run;
}

/** A dispatcher of `services`. */
export function createDispatcher(services: readonly ServedService[]): Dispatcher {
  const entries = new Map<string, Entry>();
  for (const { service, implementation } of services) {
    for (const method of service.methods) {
      const implemented = implementation[method.localName];
      if (typeof implemented !== "function") continue;
      // `serve` type-checked the implementation against the method; a served service only forgot that type.
      entries.set(methodPath(method), { method, run: toRun(method, implemented as Implementation) });
    }
  }
  return {
    methods: [...entries.keys()].toSorted(),
    find: (path) => entries.get(path)?.method,
    answer: (call) => {
      const entry = entries.get(call.path);
      if (!entry) throw unknownMethodFault(call.path);
      return entry.run(call, toContext(call));
    },
  };
}

function toContext(call: IncomingCall): CallContext {
  return {
    signal: call.signal,
    callId: call.callId,
    remainingMs: call.remainingMs,
    ...(call.traceparent === undefined ? {} : { traceparent: call.traceparent }),
    ...(call.idempotencyKey === undefined ? {} : { idempotencyKey: call.idempotencyKey }),
    metadata: call.metadata,
    peer: call.peer,
    ...(call.take ? { take: call.take } : {}),
  };
}

/** What a caller gets for a method that this version does not serve. */
export function unknownMethodFault(path: string): Fault {
  return new Fault("VERSION_UNSUPPORTED", `${path} is not known here`, {
    hint: "upgrade the side that answers",
    details: { method: path },
  });
}

function toRun(method: DescMethod, implementation: Implementation): Run {
  const streamsRequests = method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming";
  const streamsAnswers = method.methodKind === "server_streaming" || method.methodKind === "bidi_streaming";
  return async function* run({ requests, signal, patience = signal }, context) {
    const request = streamsRequests
      ? decodeEach(method.input, requests)
      : decodeMessage(method.input, await onlyRequest(requests, context));
    const answer = implementation(request, context);
    if (streamsAnswers) yield* encodeEach(method.output, answer as Answers, patience);
    else yield await encodeAnswer(method.output, answer as Promise<MessageInitShape<DescMessage>>, patience);
  };
}

type Answers = AsyncIterable<MessageInitShape<DescMessage>>;

/**
 * The messages of a request. Leaving them waits for nothing, as leaving a generator would that is reading: the next message
 * may never come, and the caller is to hear now that its call has failed.
 */
function decodeEach(
  schema: DescMessage,
  requests: AsyncIterable<Uint8Array>,
): AsyncIterableIterator<unknown, undefined> {
  const source = requests[Symbol.asyncIterator]();
  const end = { done: true, value: undefined } as const;
  let isLeft = false;
  const leave = (): void => {
    if (!isLeft) source.return?.().catch(() => undefined);
    isLeft = true;
  };
  return {
    next: async () => {
      const next = isLeft ? end : await source.next();
      if (next.done === true) return end;
      try {
        return { done: false, value: decodeMessage(schema, next.value) };
      } catch (error) {
        leave();
        throw error;
      }
    },
    return: async () => {
      leave();
      return end;
    },
    [Symbol.asyncIterator]() {
      return this;
    },
  };
}

async function onlyRequest(
  requests: AsyncIterable<Uint8Array>,
  { signal }: CallContext,
): Promise<Uint8Array> {
  const only = oneMessageOf(requests);
  if (only) return only;
  const iterator = requests[Symbol.asyncIterator]();
  const first = await raceSignal(iterator.next(), signal);
  if (first.done)
    throw new Fault("INVALID_ARGUMENT", "the request has no message", { details: { field: "message" } });
  return first.value;
}

async function encodeAnswer(
  schema: DescMessage,
  answer: Promise<MessageInitShape<DescMessage>>,
  signal: AbortSignal,
): Promise<Encoded> {
  return encodeMessage(schema, await raceSignal(answer, signal));
}

async function* encodeEach(
  schema: DescMessage,
  answers: Answers,
  signal: AbortSignal,
): AsyncGenerator<Encoded> {
  for await (const answer of raceEach(answers, signal)) yield encodeMessage(schema, answer);
}
