import { create, fromBinary, toBinary, type DescMethod } from "@bufbuild/protobuf";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { createQueue, type Queue } from "../../shared/flow/queue.ts";
import {
  Node,
  NodeGetOutcomeResponseSchema,
  OutcomeState,
  type NodeGetOutcomeResponse,
} from "../../shared/gen/fairlead/v1/link_pb.ts";
import { CallClass } from "../../shared/gen/fairlead/v1/options_pb.ts";
import { raceSignal, type Clock } from "../../shared/lifetime/clock.ts";
import { callTraitsOf } from "../../shared/rpc/call-traits.ts";
import type { Dispatcher, IncomingCall } from "../../shared/rpc/dispatch.ts";
import { bytesOf, encodedOf, type Encoded } from "../../shared/rpc/encoded.ts";
import { fromWireFault, toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { Answer } from "../../shared/rpc/reverse/answerer.ts";
import { serve, type ServedService } from "../../shared/rpc/service.ts";
import { isSameRequest, RequestDigest } from "./call-digest.ts";
import type { RecordedJobs } from "./job-outcomes.ts";
import { keptAnswer, limitsOfLedger, noOutcomeFault } from "./kept-answer.ts";
import { openLedgerStore, type LedgerStore, type RecordedCall } from "./ledger-store.ts";
import { waitForEnd } from "./wait-for-end.ts";

/** What the ledger stands on. */
export interface LedgerOptions {
  readonly dispatcher: Dispatcher;
  readonly clock: Clock;
  /** Where it is kept; without it the ledger ends with the process. */
  readonly file?: string | undefined;
  /** What is known of jobs; without it a job is a call like others. */
  readonly jobs?: RecordedJobs | undefined;
  /** Hears why the file could not be written. */
  readonly onFault?: ((error: unknown, about: string) => void) | undefined;
}

/** The node's record of calls that run at most once. */
export interface Ledger extends Disposable {
  /** Answers calls: those that run at most once are written down first, and a repeat gets the first outcome. */
  readonly answer: Answer;
  /** `Node.GetOutcome`. */
  readonly service: ServedService;
  /** Tells this ledger from one that was made later; empty while it cannot be read. */
  readonly id: string;
  /** Ids of recorded calls that still run. */
  runningCallIds(): readonly string[];
}

/**
 * A ledger before `dispatcher`. One that cannot be opened refuses what runs at most once, with `DISK_FULL` or `IO_ERROR`,
 * and is tried again at the next such call; other calls go on. Disposing it closes its file.
 */
export function createLedger(options: LedgerOptions): Ledger {
  const ledger = new CallLedger(options);
  return {
    answer: (call) => ledger.answer(call),
    service: serve(Node, { getOutcome: async ({ callId }) => await ledger.outcome(callId) }),
    get id() {
      return ledger.id;
    },
    runningCallIds: () => ledger.runningCallIds(),
    [Symbol.dispose]: () => ledger.close(),
  };
}

/** A call that runs in this process. */
interface Running {
  readonly callId: string;
  readonly path: string;
  readonly key: string | undefined;
  readonly job: boolean;
  /** Of what was read of the request; only for calls with a key. */
  readonly request: RequestDigest | undefined;
  /** Resolves when the call has ended, with how. */
  readonly ended: Promise<NodeGetOutcomeResponse>;
}

class CallLedger {
  readonly #options: LedgerOptions;
  readonly #clock: Clock;
  readonly #byId = new Map<string, Running>();
  readonly #byKey = new Map<string, Running>();
  /** Outcomes that could not be written down, kept as long as they would have been. */
  readonly #unwritten = new Map<
    string,
    { readonly endedAt: number; readonly outcome: NodeGetOutcomeResponse }
  >();
  #store: LedgerStore | undefined;
  #isClosing = false;

  constructor(options: LedgerOptions) {
    this.#options = options;
    this.#clock = options.clock;
    try {
      this.#open();
    } catch (error) {
      options.onFault?.(error, "ledger");
    }
  }

  get id(): string {
    return this.#store?.id ?? "";
  }

  #open(): LedgerStore {
    if (this.#store) return this.#store;
    const store = openLedgerStore(this.#options.file);
    try {
      // Whatever has no end was running when the process before this one ended.
      store.endAll(this.#clock.now(), (callId, path) => encodeOutcome(lostOutcome(callId, path)));
    } catch (error) {
      store[Symbol.dispose]();
      throw error;
    }
    this.#store = store;
    return store;
  }

  /** The file is closed once nothing runs that will want to write its end down. */
  close(): void {
    this.#isClosing = true;
    if (this.#byId.size > 0) return;
    this.#store?.[Symbol.dispose]();
    this.#store = undefined;
  }

  answer(call: IncomingCall): AsyncIterable<Encoded> {
    const { dispatcher } = this.#options;
    const method = dispatcher.find(call.path);
    if (!method || !isRecorded(method)) return dispatcher.answer(call);
    const { idempotencyKey: key } = call;
    const running = this.#byId.get(call.callId) ?? (key === undefined ? undefined : this.#byKey.get(key));
    if (running) return this.#join(running, call);
    const store = this.#open();
    this.#forgetOld(store);
    const known = store.find(call.callId, key);
    if (known) return this.#repeat(known, call);
    return this.#first(call, { store, method, job: callTraitsOf(method).callClass === CallClass.JOB });
  }

  // --- the first of its kind

  #first(call: IncomingCall, parts: FirstParts): AsyncIterable<Encoded> {
    const { calls, bytes } = parts.store.size();
    if (calls >= limitsOfLedger.calls || bytes >= limitsOfLedger.bytes) throw fullFault(calls, bytes);
    const { callId, path, idempotencyKey: key } = call;
    const ended = Promise.withResolvers<NodeGetOutcomeResponse>();
    const request = key === undefined ? undefined : new RequestDigest();
    const running: Running = { callId, path, key, job: parts.job, request, ended: ended.promise };
    this.#byId.set(callId, running);
    if (key !== undefined) this.#byKey.set(key, running);
    const live = createQueue<Encoded>(1);
    void this.#run(call, { ...parts, running, live }).then((outcome) => {
      this.#byId.delete(callId);
      if (key !== undefined) this.#byKey.delete(key);
      ended.resolve(outcome);
      if (this.#isClosing) this.close();
    });
    return live;
  }

  /** Writes the call down, runs it, and writes down how it ended before the caller hears of it. */
  async #run(call: IncomingCall, parts: RunParts): Promise<NodeGetOutcomeResponse> {
    const { running, live } = parts;
    const kept = keptAnswer();
    let fault: Fault | undefined;
    let hasBegun = false;
    using patience = waitForEnd(call, this.#clock);
    // The caller hears when its time has passed; what is written down is how the call ended, whenever that is.
    if (!running.job) onceAborted(call.signal, (reason) => live.close(faultFromError(reason)));
    try {
      const requests = await this.#begin(call, parts);
      hasBegun = true;
      let callerListens = true;
      const given = { ...call, requests, ...(running.job ? {} : { patience: patience.signal }) };
      for await (const message of this.#options.dispatcher.answer(given)) {
        if (!running.job) kept.add(message);
        if (callerListens)
          callerListens = await live.push(message).then(
            () => true,
            () => false,
          );
      }
    } catch (error) {
      fault = faultFromError(error);
    }
    const outcome = toOutcome(running, kept.messages, fault);
    // A job whose agent leaves it goes on: it has not ended.
    if (hasBegun && !(running.job && this.#isClosing)) this.#end(parts, outcome);
    live.close(fault);
    return outcome;
  }

  /** Resolves with the request once the call is on the disk; it may run from then on. */
  async #begin(call: IncomingCall, { store, method, running }: RunParts): Promise<AsyncIterable<Uint8Array>> {
    const { callId, path, key, job, request } = running;
    const begunAt = this.#clock.now();
    let { requests } = call;
    let digest: Uint8Array | undefined;
    if (request && isSingle(method)) {
      // A request of one message is known as a whole before it runs.
      const only = await raceSignal(Array.fromAsync(request.each(requests)), call.signal);
      requests = listOf(only);
      digest = request.digest;
    } else if (request) requests = request.each(requests);
    try {
      await store.begin({ callId, path, key, job, request: digest, begunAt });
    } catch (error) {
      // It does not run, so that it may be asked for again; where not even that can be written it is asked in vain.
      attempt(() => store.drop(callId));
      throw error;
    }
    return requests;
  }

  #end({ store, running }: RunParts, outcome: NodeGetOutcomeResponse): void {
    const { callId, request } = running;
    const endedAt = this.#clock.now();
    try {
      store.end({
        callId,
        endedAt,
        outcome: encodeOutcome(outcome),
        request: request?.digest,
        readCount: request?.readCount ?? 0,
      });
    } catch (error) {
      this.#unwritten.set(callId, { endedAt, outcome });
      this.#options.onFault?.(error, "ledger");
    }
  }

  // --- repeats

  /** A repeat of a call that runs: it gets the outcome of that. */
  async *#join(running: Running, call: IncomingCall): AsyncGenerator<Encoded> {
    const { callId, path, request, job } = running;
    if (path !== call.path) throw otherRequestFault(path, call);
    const outcome = await raceSignal(running.ended, call.signal);
    await assertSame(request, call, path);
    yield* this.#answerOf(outcome, { callId, job, signal: call.signal });
  }

  /** A repeat of a call that stands in the ledger. */
  async *#repeat(known: RecordedCall, call: IncomingCall): AsyncGenerator<Encoded> {
    const { callId, path, request, readCount, job } = known;
    if (path !== call.path) throw otherRequestFault(path, call);
    await assertSame(request && { digest: request, readCount }, call, path);
    yield* this.#answerOf(await this.outcome(callId), { callId, job, signal: call.signal });
  }

  async *#answerOf(
    { fault, messages }: NodeGetOutcomeResponse,
    { callId, job, signal }: { readonly callId: string; readonly job: boolean; readonly signal: AbortSignal },
  ): AsyncGenerator<Encoded> {
    if (fault) throw fromWireFault(fault);
    const { jobs } = this.#options;
    if (job && jobs) yield* jobs.attach(callId, signal);
    else for (const message of messages) yield encodedOf(message);
  }

  // --- what is asked about

  async outcome(callId: string): Promise<NodeGetOutcomeResponse> {
    const running = this.#byId.get(callId);
    if (running) return outcomeOf(OutcomeState.RUNNING, running.path);
    const store = this.#open();
    this.#forgetOld(store);
    const known = store.find(callId, undefined);
    if (!known) return outcomeOf(OutcomeState.UNKNOWN);
    return { ...(await this.#recordedOutcome(known)), method: known.path };
  }

  async #recordedOutcome({ callId, path, job, outcome }: RecordedCall): Promise<NodeGetOutcomeResponse> {
    const recorded = outcome
      ? fromBinary(NodeGetOutcomeResponseSchema, outcome)
      : this.#unwritten.get(callId)?.outcome;
    if (job && !recorded?.fault)
      return (await this.#options.jobs?.outcome(callId)) ?? lostOutcome(callId, path);
    return recorded ?? lostOutcome(callId, path);
  }

  #forgetOld(store: LedgerStore): void {
    const now = this.#clock.now();
    const endedAt = now - limitsOfLedger.keptMs;
    store.forget({ endedAt, jobsBegunAt: endedAt - limitsOfLedger.longestJobMs });
    for (const [callId, one] of this.#unwritten) {
      if (one.endedAt >= endedAt) break;
      this.#unwritten.delete(callId);
      attempt(() => store.drop(callId));
    }
  }

  runningCallIds(): readonly string[] {
    return [...this.#byId.keys()];
  }
}

interface FirstParts {
  readonly store: LedgerStore;
  readonly method: DescMethod;
  readonly job: boolean;
}

interface RunParts extends FirstParts {
  readonly running: Running;
  readonly live: Queue<Encoded>;
}

/** Whether calls of a method are written down before they run. */
function isRecorded(method: DescMethod): boolean {
  const { callClass, goesOn } = callTraitsOf(method);
  return callClass === CallClass.AT_MOST_ONCE || (callClass === CallClass.JOB && !goesOn);
}

function isSingle({ methodKind }: DescMethod): boolean {
  return methodKind === "unary" || methodKind === "server_streaming";
}

async function* listOf(messages: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* messages;
}

function onceAborted(signal: AbortSignal, then: (reason: unknown) => void): void {
  signal.addEventListener("abort", () => then(signal.reason), { once: true });
}

function attempt(work: () => void): void {
  try {
    work();
  } catch {
    // What it would have tidied up ends with its time.
  }
}

function outcomeOf(state: OutcomeState, method = ""): NodeGetOutcomeResponse {
  return create(NodeGetOutcomeResponseSchema, { state, method });
}

function endedWith(fault: Fault): NodeGetOutcomeResponse {
  return create(NodeGetOutcomeResponseSchema, { state: OutcomeState.ENDED, fault: toWireFault(fault) });
}

/** `messages` is undefined when they were too large to be kept. */
function toOutcome(
  { callId, path }: Running,
  messages: readonly Encoded[] | undefined,
  fault: Fault | undefined,
): NodeGetOutcomeResponse {
  if (fault) return endedWith(fault);
  if (!messages) return endedWith(noOutcomeFault(callId, path));
  const kept = messages.map((message) => bytesOf(message));
  return create(NodeGetOutcomeResponseSchema, { state: OutcomeState.ENDED, messages: kept });
}

function encodeOutcome(outcome: NodeGetOutcomeResponse): Uint8Array {
  return toBinary(NodeGetOutcomeResponseSchema, outcome);
}

/** A call that was running when its process ended: nobody knows how far it came. */
function lostOutcome(callId: string, path: string): NodeGetOutcomeResponse {
  return endedWith(
    new Fault("OUTCOME_UNKNOWN", `the node's agent ended while ${path} ran`, {
      hint: "look at what it did; do not repeat it blindly",
      details: { callId, stage: "running", reason: "agent_ended" },
    }),
  );
}

/** A call without a digest was asked for by its id: whoever has that knows the request. */
async function assertSame(
  first: { readonly digest: Uint8Array; readonly readCount: number } | undefined,
  call: IncomingCall,
  path: string,
): Promise<void> {
  if (first && !(await isSameRequest(first, call.requests))) throw otherRequestFault(path, call);
}

function otherRequestFault(path: string, call: IncomingCall): Fault {
  return new Fault("CONFLICT", `the idempotency key belongs to another request of ${path}`, {
    details: { field: "idempotencyKey", expected: path, actual: call.path },
  });
}

function fullFault(calls: number, bytes: number): Fault {
  const isFull = calls >= limitsOfLedger.calls;
  return new Fault("LIMIT_REACHED", "the node's ledger is full", {
    hint: "outcomes are forgotten ten minutes after their calls have ended; repeat the call then",
    details: {
      limit: isFull ? limitsOfLedger.calls : limitsOfLedger.bytes,
      actual: isFull ? calls : bytes,
      reason: "ledger_full",
    },
  });
}
