import { createHash, type Hash } from "node:crypto";
import { getOption } from "@bufbuild/protobuf";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { createQueue } from "../../shared/flow/queue.ts";
import { Node, OutcomeState } from "../../shared/gen/fairlead/v1/link_pb.ts";
import { CallClass, call_class } from "../../shared/gen/fairlead/v1/options_pb.ts";
import { raceSignal, type Clock } from "../../shared/lifetime/clock.ts";
import type { Dispatcher, IncomingCall } from "../../shared/rpc/dispatch.ts";
import { bytesOf, encodedOf, type Encoded } from "../../shared/rpc/encoded.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { Answer } from "../../shared/rpc/reverse/answerer.ts";
import { serve, type ServedService } from "../../shared/rpc/service.ts";

/** An outcome is kept for so long after its call ended, in milliseconds. */
export const keepOutcomeMs: number = 10 * 60 * 1000;

/** The most that one kept answer may hold, in bytes: it must fit one message when it is asked for. */
const maxKeptAnswerBytes: number = 3 * 1024 * 1024;

/** All kept answers together, in bytes. */
const maxKeptBytes: number = 64 * 1024 * 1024;

/** Calls in the ledger. */
const maxKeptCalls = 100_000;

interface Entry {
  readonly callId: string;
  readonly path: string;
  readonly key: string | undefined;
  /** What its implementation read of the request; only for calls with a key. */
  readonly request: RequestDigest | undefined;
  readonly messages: Buffer[];
  keptBytes: number;
  /** Resolves when the call ended. */
  readonly ended: Promise<void>;
  fault: Fault | undefined;
  endedAt: number | undefined;
}

/** The node's record of calls that run at most once, in memory. */
export interface Ledger {
  /** Answers calls: those that run at most once are recorded, and a repeat gets the first outcome. */
  readonly answer: Answer;
  /** `Node.GetOutcome`. */
  readonly service: ServedService;
  /** Ids of recorded calls that still run. */
  runningCallIds(): readonly string[];
}

/** A ledger before `dispatcher`. */
export function createLedger(dispatcher: Dispatcher, clock: Clock): Ledger {
  const ledger = new MemoryLedger(dispatcher, clock);
  return {
    answer: (call) => ledger.answer(call),
    service: serve(Node, { getOutcome: async ({ callId }) => ledger.outcome(callId) }),
    runningCallIds: () => ledger.runningCallIds(),
  };
}

class MemoryLedger {
  readonly #dispatcher: Dispatcher;
  readonly #clock: Clock;
  readonly #byId = new Map<string, Entry>();
  readonly #byKey = new Map<string, Entry>();
  /** In the order in which they ended. */
  readonly #endedEntries: Entry[] = [];
  #keptBytes = 0;

  constructor(dispatcher: Dispatcher, clock: Clock) {
    this.#dispatcher = dispatcher;
    this.#clock = clock;
  }

  answer(call: IncomingCall): AsyncIterable<Encoded> {
    const method = this.#dispatcher.find(call.path);
    if (!method || getOption(method, call_class) !== CallClass.AT_MOST_ONCE)
      return this.#dispatcher.answer(call);
    this.#forgetOld();
    const { idempotencyKey: key } = call;
    const known = this.#byId.get(call.callId) ?? (key === undefined ? undefined : this.#byKey.get(key));
    return known ? repeat(known, call) : this.#first(call);
  }

  #first(call: IncomingCall): AsyncIterable<Encoded> {
    if (this.#byId.size >= maxKeptCalls || this.#keptBytes >= maxKeptBytes) throw fullFault(this.#byId.size);
    const key = call.idempotencyKey;
    const ended = Promise.withResolvers<void>();
    const entry: Entry = {
      callId: call.callId,
      path: call.path,
      key,
      request: key === undefined ? undefined : { hash: createHash("sha256"), readCount: 0 },
      messages: [],
      keptBytes: 0,
      ended: ended.promise,
      fault: undefined,
      endedAt: undefined,
    };
    this.#byId.set(entry.callId, entry);
    if (key !== undefined) this.#byKey.set(key, entry);
    const live = createQueue<Encoded>(1);
    const requests = entry.request ? digestEach(call.requests, entry.request) : call.requests;
    const run = async (): Promise<void> => {
      let callerListens = true;
      try {
        for await (const message of this.#dispatcher.answer({ ...call, requests })) {
          this.#record(entry, message);
          if (callerListens)
            callerListens = await live.push(message).then(
              () => true,
              () => false,
            );
        }
        live.close();
      } catch (error) {
        entry.fault = faultFromError(error);
        live.close(error);
      }
      entry.endedAt = this.#clock.now();
      this.#endedEntries.push(entry);
      ended.resolve();
    };
    void run();
    return live;
  }

  #record(entry: Entry, message: Encoded): void {
    const bytes = message.byteLength;
    if (entry.keptBytes + bytes > maxKeptAnswerBytes) {
      this.#keptBytes -= entry.keptBytes;
      entry.messages.length = 0;
      entry.keptBytes = Number.POSITIVE_INFINITY;
      return;
    }
    entry.messages.push(Buffer.from(bytesOf(message)));
    entry.keptBytes += bytes;
    this.#keptBytes += bytes;
  }

  #forgetOld(): void {
    const before = this.#clock.now() - keepOutcomeMs;
    for (let oldest = this.#endedEntries[0]; oldest?.endedAt !== undefined && oldest.endedAt < before;) {
      this.#endedEntries.shift();
      this.#byId.delete(oldest.callId);
      if (oldest.key !== undefined) this.#byKey.delete(oldest.key);
      if (Number.isFinite(oldest.keptBytes)) this.#keptBytes -= oldest.keptBytes;
      oldest = this.#endedEntries[0];
    }
  }

  outcome(callId: string) {
    this.#forgetOld();
    const entry = this.#byId.get(callId);
    if (!entry) return { state: OutcomeState.UNKNOWN };
    if (entry.endedAt === undefined) return { state: OutcomeState.RUNNING };
    const fault = entry.fault ?? (Number.isFinite(entry.keptBytes) ? undefined : notKeptFault(entry));
    if (fault) return { state: OutcomeState.ENDED, fault: toWireFault(fault) };
    return { state: OutcomeState.ENDED, messages: entry.messages };
  }

  runningCallIds(): readonly string[] {
    const running = Array.from(this.#byId.values()).filter(({ endedAt }) => endedAt === undefined);
    return running.map(({ callId }) => callId);
  }
}

interface RequestDigest {
  readonly hash: Hash;
  readCount: number;
}

/** The request as its implementation reads it, with a digest of what was read. */
async function* digestEach(
  requests: AsyncIterable<Uint8Array>,
  digest: RequestDigest,
): AsyncGenerator<Uint8Array> {
  for await (const message of requests) {
    addToDigest(digest.hash, message);
    digest.readCount += 1;
    yield message;
  }
}

function addToDigest(hash: Hash, message: Uint8Array): void {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(message.byteLength);
  hash.update(length).update(message);
}

/** Answers a repeat with the outcome of the first; `CONFLICT` when it is another call under the same name. */
async function* repeat(entry: Entry, call: IncomingCall): AsyncGenerator<Encoded> {
  if (entry.path !== call.path) throw otherRequestFault(entry, call);
  await raceSignal(entry.ended, call.signal);
  if (entry.request && !(await isSameRequest(entry.request, call.requests)))
    throw otherRequestFault(entry, call);
  if (entry.fault) throw entry.fault;
  if (!Number.isFinite(entry.keptBytes)) throw notKeptFault(entry);
  for (const message of entry.messages) yield encodedOf(message);
}

/** Compares as much of a repeat's request as the first call read of its own. */
async function isSameRequest(first: RequestDigest, requests: AsyncIterable<Uint8Array>): Promise<boolean> {
  const hash = createHash("sha256");
  let readCount = 0;
  const iterator = requests[Symbol.asyncIterator]();
  while (readCount < first.readCount) {
    const next = await iterator.next();
    if (next.done) return false;
    addToDigest(hash, next.value);
    readCount += 1;
  }
  return hash.digest("hex") === first.hash.copy().digest("hex");
}

function otherRequestFault(entry: Entry, call: IncomingCall): Fault {
  return new Fault("CONFLICT", `the idempotency key belongs to another request of ${entry.path}`, {
    details: { field: "idempotencyKey", expected: entry.path, actual: call.path },
  });
}

function notKeptFault({ callId, path }: Entry): Fault {
  return new Fault("OUTCOME_UNKNOWN", `${path} succeeded, but its answer was too large to be kept`, {
    details: { callId, stage: "running", reason: "answer_not_kept" },
  });
}

function fullFault(callCount: number): Fault {
  return new Fault("LIMIT_REACHED", "the node's ledger is full", {
    details: { limit: maxKeptCalls, actual: callCount, reason: "ledger_full" },
  });
}
