import { faultFromError } from "../../fault/fault-from-error.ts";
import { Fault } from "../../fault/fault.ts";
import { startDeadline, type Clock } from "../../lifetime/clock.ts";
import type { Encoded } from "../encoded.ts";
import { fromWireFault } from "../fault-wire.ts";
import type { OutgoingCall } from "../transport.ts";
import type { Budget } from "./budget.ts";
import {
  createReceiveQueue,
  createSendCredit,
  firstCreditOf,
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
  readonly onFrame: (frame: AnswerFrame) => void;
  readonly onLost: (fault: Fault) => void;
  /** Whoever owns the port ends the call: the other side hears of it. */
  readonly onCancelled: (fault: Fault) => void;
}

/** What a call needs beside its port. */
export interface CarryOptions {
  readonly budget: Budget;
  readonly clock: Clock;
  /** Hears how far the call came. */
  readonly onStage?: (stage: CallStage) => void;
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
  using _deadline = call.limit(options.clock);
  call.start();
  try {
    yield* call.answers;
  } finally {
    call.leave();
  }
}

/** For a sender that still waits when its call has ended well; made once, since every call ends. */
const ended = new Fault("CANCELLED", "the call has ended");

class CarriedCall {
  readonly #port: CallPort;
  readonly #outgoing: OutgoingCall;
  readonly #onStage: (stage: CallStage) => void;
  readonly #credit: SendCredit;
  readonly answers: ReceiveQueue;
  #stage: CallStage = "queued";
  #over = false;
  readonly #onAbort = (): void => this.#abandon(faultFromError(this.#outgoing.signal?.reason));

  constructor(port: CallPort, outgoing: OutgoingCall, options: CarryOptions) {
    const firstBytes = firstCreditOf(outgoing.remainingMs);
    this.#port = port;
    this.#outgoing = outgoing;
    this.#onStage = options.onStage ?? (() => undefined);
    this.#credit = createSendCredit(firstBytes);
    this.answers = createReceiveQueue({
      firstBytes,
      budget: options.budget,
      grant: (bytes, windowBytes) => port.write(callerGrantFrame(bytes, windowBytes)),
    });
  }

  limit(clock: Clock): Disposable {
    const { remainingMs, path, callId } = this.#outgoing;
    if (!Number.isFinite(remainingMs)) return { [Symbol.dispose]: () => undefined };
    const deadline = startDeadline({ timeoutMs: remainingMs + deadlineGraceMs, clock });
    deadline.signal.addEventListener(
      "abort",
      () => {
        const details = { stage: this.#stage, callId };
        this.#abandon(
          new Fault("DEADLINE_EXCEEDED", `${path} did not end within ${remainingMs} ms`, { details }),
        );
      },
      { once: true },
    );
    return deadline;
  }

  start(): void {
    const { signal, callId, path, remainingMs, traceparent, idempotencyKey } = this.#outgoing;
    this.#port.attach({
      callId,
      onFrame: (frame) => this.#onFrame(frame),
      onLost: (fault) => this.#end(fault),
      onCancelled: (fault) => this.#abandon(fault),
    });
    if (signal?.aborted) return this.#onAbort();
    signal?.addEventListener("abort", this.#onAbort, { once: true });
    this.#port.write(
      openFrame({
        callId,
        method: path,
        remainingMs: Number.isFinite(remainingMs) ? BigInt(Math.ceil(remainingMs)) : 0n,
        traceparent: traceparent ?? "",
        idempotencyKey: idempotencyKey ?? "",
        credit: BigInt(firstCreditOf(remainingMs)),
      }),
    );
    this.#reach("dispatched");
    this.#send().catch((error: unknown) => this.#abandon(faultFromError(error)));
  }

  #reach(stage: CallStage): void {
    if (this.#stage === stage) return;
    this.#stage = stage;
    this.#onStage(stage);
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

  #onFrame(frame: AnswerFrame): void {
    if (this.#over) return;
    this.#reach("running");
    switch (frame.case) {
      case "message":
        if (!this.answers.push(frame.value)) this.#abandon(overCreditFault(this.#outgoing.path));
        return;
      case "grant":
        return this.#credit.grant(Number(frame.value.bytes), Number(frame.value.window));
      case "status":
        if (!isOf(frame.value.callId, this.#outgoing.callId)) return this.#refuse(frame.value.callId);
        this.#end(frame.value.fault && fromWireFault(frame.value.fault));
        return this.#port.release();
      case "parked":
      case undefined:
        // A newer peer's frame: not for this version.
        return;
    }
  }

  #refuse(answeredId: string): void {
    const { path, callId } = this.#outgoing;
    this.#port.refuse(notThisCallFault(answeredId));
    const fault = new Fault("INTERNAL", `${path} was answered with the status of another call`, {
      details: { callId, reason: "foreign_status" },
    });
    this.answers.discard(fault);
    this.#end(fault);
  }

  /** The consumer is done with the answers: when the call still runs, that cancels it. */
  leave(): void {
    if (!this.#over) this.#abandon(new Fault("CANCELLED", "the caller has left"));
    this.answers.discard();
  }

  #abandon(fault: Fault): void {
    if (this.#over) return;
    this.#port.cancel(this.#outgoing.callId, fault);
    this.answers.discard(fault);
    this.#end(fault);
  }

  #end(fault: Fault | undefined): void {
    if (this.#over) return;
    this.#over = true;
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
