import { faultFromError } from "../../fault/fault-from-error.ts";
import { Fault } from "../../fault/fault.ts";
import type { Status } from "../../gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../lifetime/clock.ts";
import { bytesOf, type Encoded } from "../encoded.ts";
import { fromWireFault } from "../fault-wire.ts";
import { shortMessageBytes } from "../limits.ts";
import { oneMessageOf } from "../one-message.ts";
import type { OutgoingCall } from "../transport.ts";
import type { Budget } from "./budget.ts";
import {
  createReceiveQueue,
  createSendCredit,
  firstCreditOf,
  mostCreditOf,
  type ReceiveQueue,
  type SendCredit,
} from "./credit.ts";
import { callerGrantFrame, endFrame, messageFrame, openFrame, type AnswerFrame } from "./frames.ts";

/** How far a call came, as its failure names it. */
export type CallStage = "queued" | "dispatched" | "running";

/** What carries the frames of one call at a time. */
export interface CallPort {
  /** Sends a frame. */
  write(frame: Encoded): void;
  /** Hands over the frames that arrive from now on, and the fault when the port is lost. */
  attach(listener: CallListener): void;
  /** The call's status was seen: the port serves the next call. */
  release(): void;
  /** The call ends before its status: the other side hears why, and the port is given up. */
  cancel(callId: string, fault: Fault): void;
  /** The other side answered a call that is not this one: it is told so, and the port is given up. */
  refuse(fault: Fault): void;
}

/** What a call does with what its port brings. */
export interface CallListener {
  readonly callId: string;
  onFrame(frame: AnswerFrame): void;
  onLost(fault: Fault): void;
  /** Whoever owns the port ends the call: the other side hears of it. */
  onCancelled(fault: Fault): void;
}

/** What a call needs beside its port. */
export interface CarryOptions {
  readonly budget: Budget;
  readonly clock: Clock;
  /** Hears how far the call came. */
  readonly onStage?: (stage: CallStage) => void;
  /** Whether the other side takes a request of one message in `Open`, and gives an answer of one in `Status`. */
  readonly shortCalls?: boolean;
}

/**
 * The other side holds the deadline too and knows more of the call: its answer is waited for so long, in milliseconds.
 */
const deadlineGraceMs = 250;

/** Carries one call over a port that is free. Leaving the answers early cancels it. */
export async function* carryCall(
  port: CallPort,
  outgoing: OutgoingCall,
  options: CarryOptions,
): AsyncGenerator<Uint8Array> {
  const call = new CarriedCall(port, outgoing, options);
  call.start();
  try {
    yield* call.answers;
  } finally {
    call.leave();
  }
}

/** For a sender that still waits when its call has ended well; made once, since every call ends. */
const ended = new Fault("CANCELLED", "the call has ended");

class CarriedCall implements CallListener {
  readonly #port: CallPort;
  readonly #outgoing: OutgoingCall;
  readonly #options: CarryOptions;
  readonly #credit: SendCredit;
  readonly answers: ReceiveQueue;
  #stage: CallStage = "queued";
  #over = false;
  #stopTimer: (() => void) | undefined;
  readonly #onAbort = (): void => this.onCancelled(faultFromError(this.#outgoing.signal?.reason));

  constructor(port: CallPort, outgoing: OutgoingCall, options: CarryOptions) {
    const firstBytes = firstCreditOf(outgoing.remainingMs);
    this.#port = port;
    this.#outgoing = outgoing;
    this.#options = options;
    this.#credit = createSendCredit(firstBytes);
    this.answers = createReceiveQueue({
      firstBytes,
      mostBytes: mostCreditOf(outgoing.remainingMs),
      budget: options.budget,
      grant: (bytes, windowBytes) => port.write(callerGrantFrame(bytes, windowBytes)),
    });
  }

  get callId(): string {
    return this.#outgoing.callId;
  }

  #onLate(): void {
    const { remainingMs, path, callId } = this.#outgoing;
    const details = { stage: this.#stage, callId };
    this.onCancelled(
      new Fault("DEADLINE_EXCEEDED", `${path} did not end within ${remainingMs} ms`, { details }),
    );
  }

  start(): void {
    const { signal, remainingMs } = this.#outgoing;
    const { clock } = this.#options;
    if (Number.isFinite(remainingMs))
      this.#stopTimer = clock.after(remainingMs + deadlineGraceMs, () => this.#onLate());
    this.#port.attach(this);
    if (this.#over) return;
    if (signal?.aborted) return this.#onAbort();
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    const request = this.#requestInOpen();
    this.#port.write(this.#toOpen(request));
    this.#reach("dispatched");
    if (!request) this.#send().catch((error: unknown) => this.onCancelled(faultFromError(error)));
  }

  /** The whole request, when it is so short that it begins the call and the other side takes it so. */
  #requestInOpen(): Encoded | undefined {
    if (this.#options.shortCalls !== true) return undefined;
    const only = oneMessageOf(this.#outgoing.requests);
    return only && only.byteLength <= shortMessageBytes ? only : undefined;
  }

  #toOpen(request: Encoded | undefined): Encoded {
    const { callId, method, path, remainingMs, traceparent, idempotencyKey } = this.#outgoing;
    return openFrame({
      callId,
      method: path,
      remainingMs: Number.isFinite(remainingMs) ? BigInt(Math.ceil(remainingMs)) : 0n,
      traceparent: traceparent ?? "",
      idempotencyKey: idempotencyKey ?? "",
      credit: BigInt(firstCreditOf(remainingMs)),
      answerInStatus:
        this.#options.shortCalls === true &&
        (method.methodKind === "unary" || method.methodKind === "client_streaming"),
      ...(request ? { request: bytesOf(request) } : {}),
    });
  }

  #reach(stage: CallStage): void {
    if (this.#stage === stage) return;
    this.#stage = stage;
    this.#options.onStage?.(stage);
  }

  async #send(): Promise<void> {
    for await (const message of this.#outgoing.requests) {
      if (this.#over) return;
      const room = this.#credit.take(message.byteLength);
      if (room) await room;
      if (this.#over) return;
      this.#port.write(messageFrame(message));
    }
    if (!this.#over) this.#port.write(endFrame);
  }

  onFrame(frame: AnswerFrame): void {
    if (this.#over) return;
    this.#reach("running");
    switch (frame.case) {
      case "message":
        return this.#take(frame.value);
      case "grant":
        return this.#credit.grant(Number(frame.value.bytes), Number(frame.value.window));
      case "status":
        return this.#onStatus(frame.value);
      case "parked":
      case undefined:
        // A newer peer's frame: not for this version.
        return;
    }
  }

  #take(message: Uint8Array): void {
    if (!this.answers.push(message)) this.onCancelled(overCreditFault(this.#outgoing.path));
  }

  #onStatus({ callId, fault, answer }: Status): void {
    if (!isOf(callId, this.#outgoing.callId)) return this.#refuse(callId);
    if (answer) this.#take(answer);
    if (this.#over) return;
    this.onLost(fault && fromWireFault(fault));
    this.#port.release();
  }

  #refuse(answeredId: string): void {
    const { path, callId } = this.#outgoing;
    this.#port.refuse(notThisCallFault(answeredId));
    const fault = new Fault("INTERNAL", `${path} was answered with the status of another call`, {
      details: { callId, reason: "foreign_status" },
    });
    this.answers.discard(fault);
    this.onLost(fault);
  }

  /** The consumer is done with the answers: when the call still runs, that cancels it. */
  leave(): void {
    if (!this.#over) this.onCancelled(new Fault("CANCELLED", "the caller has left"));
    this.answers.discard();
  }

  onCancelled(fault: Fault): void {
    if (this.#over) return;
    this.#port.cancel(this.#outgoing.callId, fault);
    this.answers.discard(fault);
    this.onLost(fault);
  }

  /** It is over, with its status or because its port is lost. */
  onLost(fault: Fault | undefined): void {
    if (this.#over) return;
    this.#over = true;
    this.#stopTimer?.();
    this.#outgoing.signal?.removeEventListener("abort", this.#onAbort);
    this.#credit.close(fault ?? ended);
    this.answers.close(fault);
  }
}

/** A status without an id is that of the stream's own call. */
function isOf(answeredId: string, callId: string): boolean {
  return answeredId === "" || answeredId === callId;
}

/** What a peer gets that answers, or asks about, a call that it does not carry. */
export function notThisCallFault(callId: string): Fault {
  return new Fault("NOT_FOUND", "no call with that id is carried here", { details: { callId } });
}

function overCreditFault(path: string): Fault {
  return new Fault("INTERNAL", `${path} sent more than it was granted`, {
    details: { reason: "credit_exceeded" },
  });
}
