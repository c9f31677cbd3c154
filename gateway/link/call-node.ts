import { crc32 } from "node:zlib";
import type { DescMethod } from "@bufbuild/protobuf";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import { CallClass } from "../../shared/gen/fairlead/v1/options_pb.ts";
import { startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import { callTraitsOf } from "../../shared/rpc/call-traits.ts";
import { unknownMethodFault } from "../../shared/rpc/dispatch.ts";
import { oneMessageOf } from "../../shared/rpc/one-message.ts";
import { carryCall, type CallStage } from "../../shared/rpc/reverse/caller.ts";
import type { CallTransport, OutgoingCall } from "../../shared/rpc/transport.ts";
import { askLedger } from "./ask-ledger.ts";
import type { Link } from "./link.ts";
import type { NodeState } from "./node-state.ts";
import { outcomeUnknown } from "./outcome-unknown.ts";

/** What calls to a node need. */
export interface CallNodeOptions {
  readonly node: NodeState;
  readonly clock: Clock;
  /** Whether its calls are also carried while the node takes no new ones: the gateway's own questions. */
  readonly evenDraining?: boolean;
}

/** How one attempt at a call went. */
interface Attempt {
  stage: CallStage;
  /** Answers that the caller has. */
  delivered: number;
  /** Checksum over them. */
  sum: number;
  /** Whether its answer came to its end. */
  isAnswered: boolean;
}

/** Carries calls over the link at hand and, as the class of the method allows, over the one after it. */
export function createNodeTransport(first: Link, options: CallNodeOptions): CallTransport {
  return async function* callNode(call: OutgoingCall) {
    const { clock } = options;
    const sentAt = clock.now();
    const endsAt = sentAt + call.remainingMs;
    const attempt: Attempt = { stage: "queued", delivered: 0, sum: 0, isAnswered: false };
    let link = first;
    using _ = watchTime(call, options, (node) => {
      if (attempt.isAnswered || attempt.stage === "queued" || !isRecorded(call.method)) return;
      node.ranOut({ callId: call.callId, path: call.path, sentAt, hello: link.hello });
    });
    for (;;) {
      const outgoing = { ...call, remainingMs: endsAt - clock.now() };
      try {
        yield* attemptOn(link, outgoing, { attempt, ...options });
        attempt.isAnswered = true;
        return;
      } catch (error) {
        if (!link.isLostFault(error)) throw error;
        const lost = stagedFault(error, { call, attempt });
        if (attempt.stage === "queued" || call.signal?.aborted) throw lost;
        // A revoked node never comes back to say how the call ended.
        if (lost.code === "IDENTITY_REVOKED") throw lost;
        const canRepeat = oneMessageOf(call.requests) !== undefined;
        const next = await settleAfterLoss(lost, {
          call,
          attempt,
          lostLink: link,
          sentAt,
          canRepeat,
          endsAt,
          ...options,
        });
        if (next.kind === "answers") {
          attempt.isAnswered = true;
          return yield* next.messages;
        }
        link = next.link;
      }
    }
  };
}

/** A call that is over so near to its deadline ran out of time, in milliseconds: its caller may have left a little before. */
const lateMs = 100;

/** Counts a call that ran out of time, whoever was the first to say so, and tells of it. */
function watchTime(
  { remainingMs, path }: OutgoingCall,
  { clock, node }: CallNodeOptions,
  onLate: (node: NodeState) => void,
): Disposable {
  const lateAt = clock.now() + Math.max(remainingMs - lateMs, remainingMs / 2);
  return {
    [Symbol.dispose]: () => {
      if (clock.now() < lateAt) return;
      node.tally.ranOut(path);
      onLate(node);
    },
  };
}

/** Whether the node's ledger keeps how calls of a method end. */
function isRecorded(method: DescMethod): boolean {
  return callClassOf(method) === CallClass.AT_MOST_ONCE;
}

interface AttemptState extends CallNodeOptions {
  readonly attempt: Attempt;
}

async function* attemptOn(
  link: Link,
  call: OutgoingCall,
  { attempt, clock, evenDraining }: AttemptState,
): AsyncGenerator<Uint8Array> {
  if (link.signal.aborted) throw link.lostFault;
  const isNew = evenDraining !== true && !callTraitsOf(call.method).goesOn;
  if (link.draining !== undefined && isNew) throw drainingFault(link);
  if (!link.serves(call.path)) throw unknownMethodFault(call.path);
  using bulk = call.bulk ? await link.bulk.use(call.signal) : undefined;
  const { pool } = bulk?.side ?? link.main;
  const stream = pool.acquire(call);
  const port = stream instanceof Promise ? await stream : stream;
  const onStage = (stage: CallStage): void => {
    if (attempt.stage !== "running") attempt.stage = stage;
  };
  const again = { delivered: 0, sum: 0 };
  const { budget } = link;
  const { shortCalls } = link.hello;
  for await (const message of carryCall(port, call, { budget, clock, onStage, shortCalls })) {
    again.sum = crc32(message, again.sum);
    again.delivered += 1;
    if (again.delivered > attempt.delivered) {
      attempt.delivered = again.delivered;
      attempt.sum = again.sum;
      yield message;
    } else if (again.delivered === attempt.delivered && again.sum !== attempt.sum) {
      throw new Fault("NODE_OFFLINE", `the answer of ${call.path} changed while the link was away`, {
        details: { stage: attempt.stage, callId: call.callId, reason: "answer_changed" },
      });
    }
  }
}

interface LossState {
  readonly call: OutgoingCall;
  readonly attempt: Attempt;
}

function stagedFault(lost: Fault, { call, attempt }: LossState): Fault {
  return lost.with({ details: { stage: attempt.stage, callId: call.callId } });
}

interface Loss extends LossState, CallNodeOptions {
  /** The link that the call was dispatched on. */
  readonly lostLink: Link;
  /** When the call was made. */
  readonly sentAt: number;
  readonly canRepeat: boolean;
  readonly endsAt: number;
}

type Settled =
  | { readonly kind: "repeat"; readonly link: Link }
  | { readonly kind: "answers"; readonly messages: readonly Uint8Array[] };

/** What becomes of a call whose link broke after it was dispatched. */
async function settleAfterLoss(lost: Fault, loss: Loss): Promise<Settled> {
  const { call, canRepeat, attempt } = loss;
  const callClass = callClassOf(call.method);
  if (callClass === CallClass.AT_MOST_ONCE) return await settleOnce(loss);
  if (callClass !== CallClass.IDEMPOTENT || !canRepeat || !Number.isFinite(call.remainingMs)) throw lost;
  // A large answer is not sent from its begin again: its caller goes on behind what it has.
  if (call.bulk && attempt.delivered > 0) throw lost;
  // An agent that said goodbye may only be started anew.
  const limitMs = loss.lostLink.saidGoodbye ? restartMs : Number.POSITIVE_INFINITY;
  const link = await nextLink(loss, limitMs).catch(() => undefined);
  if (!link) throw lost;
  return { kind: "repeat", link };
}

/** The class that a method declares in its proto file. */
export function callClassOf(method: DescMethod): CallClass {
  return callTraitsOf(method).callClass;
}

/** How long an agent may take to be back that said goodbye, in milliseconds. */
const restartMs = 20_000;

async function nextLink({ node, call, clock, endsAt }: Loss, limitMs: number): Promise<Link> {
  const timeoutMs = Math.min(limitMs, Math.max(0, endsAt - clock.now()));
  using deadline = startDeadline({ timeoutMs, signal: call.signal, clock });
  return await node.nextLink({ bearsOffline: Number.isFinite(limitMs), signal: deadline.signal });
}

/** What runs once is not repeated: how it ended is asked of the ledger, until the call's deadline. */
async function settleOnce(loss: Loss): Promise<Settled> {
  const { node, call, clock, attempt, sentAt, endsAt } = loss;
  using deadline = startDeadline({
    timeoutMs: Math.max(0, endsAt - clock.now()),
    signal: call.signal,
    clock,
  });
  const lost = { callId: call.callId, sentAt, hello: loss.lostLink.hello };
  const standing = await askLedger(lost, {
    node,
    clock,
    signal: deadline.signal,
    untilEnded: true,
  }).catch((error: unknown) => {
    if (call.signal?.aborted && !isFault(call.signal.reason, "DEADLINE_EXCEEDED")) throw call.signal.reason;
    if (!deadline.signal.aborted && !node.isRevoked) throw error;
  });
  if (standing?.kind === "ended") {
    if (standing.fault) throw standing.fault;
    return { kind: "answers", messages: standing.messages.slice(attempt.delivered) };
  }
  throw standing?.kind === "never_began" ? neverBeganFault(loss) : unknownOutcomeFault(loss);
}

function unknownOutcomeFault({ call, attempt, lostLink }: Loss): Fault {
  return outcomeUnknown(call, { alias: lostLink.alias, stage: attempt.stage });
}

function neverBeganFault({ call }: Loss): Fault {
  return new Fault("NODE_OFFLINE", `the link broke before ${call.path} began; it did not run`, {
    details: { callId: call.callId, stage: "dispatched" },
  });
}

function drainingFault({ alias, draining }: Link): Fault {
  return new Fault("WORKSPACE_ACCESS_UNAVAILABLE", `${alias} is being drained and takes no new calls`, {
    ...(draining === "drained"
      ? { hint: `wait, or end the drain with fairlead nodes undrain ${alias}` }
      : {}),
    details: { node: alias, reason: "draining", why: draining ?? "" },
  });
}
