import { faultFromError } from "../../fault/fault-from-error.ts";
import { Fault } from "../../fault/fault.ts";
import type { Open } from "../../gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../lifetime/clock.ts";
import { noDeadline } from "../deadline.ts";
import { callLateFault, type IncomingCall } from "../dispatch.ts";
import type { Encoded } from "../encoded.ts";
import { readTraceparent } from "../grpc-server-call.ts";
import { shortMessageBytes } from "../limits.ts";
import { OneMessage } from "../one-message.ts";
import type { Peer } from "../service.ts";
import type { Budget } from "./budget.ts";
import {
  createReceiveQueue,
  createSendCredit,
  firstCreditOf,
  mostCreditOf,
  type ReceiveQueue,
  type SendCredit,
} from "./credit.ts";
import { answerGrantFrame, messageFrame, statusFrame, type CallerFrame } from "./frames.ts";

/** What answers calls: a dispatcher, or a ledger before one. */
export type Answer = (call: IncomingCall) => AsyncIterable<Encoded>;

/** What an answering side needs. */
export interface AnswerOptions {
  /** Sends a frame to the caller. */
  readonly write: (frame: Encoded) => void;
  readonly answer: Answer;
  readonly peer: Peer;
  readonly budget: Budget;
  readonly clock: Clock;
  /** Called once when the status was written or the call is lost. */
  readonly onEnded: () => void;
  /** Hears every failure before it travels; for the log. */
  readonly onFailed?: (error: unknown, call: { readonly callId: string; readonly path: string }) => void;
}

/** A call that runs here. */
export interface AnsweredCall {
  readonly callId: string;
  readonly path: string;
  /** A frame of the caller arrived. */
  onFrame(frame: CallerFrame): void;
  /** The caller has gone: the work's signal aborts with the fault and no more frame is written. */
  cancel(fault: Fault): void;
  /** What carried the call is lost: the work goes on as far as it can without it, and no more frame is written. */
  lose(fault: Fault): void;
}

/** Runs the call that `open` begins. */
export function startAnswer(open: Open, options: AnswerOptions): AnsweredCall {
  const answered = new RunningAnswer(open, options);
  // Whoever holds the call knows it before it can have ended.
  queueMicrotask(() => void answered.run());
  return answered;
}

const noMetadata: ReadonlyMap<string, string> = new Map();

class RunningAnswer implements AnsweredCall {
  readonly callId: string;
  readonly path: string;
  readonly #open: Open;
  readonly #options: AnswerOptions;
  readonly #remainingMs: number;
  /** Aborts when the caller left and at the deadline. */
  readonly #work = new AbortController();
  /** Undefined for a request that came with `Open`. */
  readonly #requests: ReceiveQueue | undefined;
  readonly #credit: SendCredit;
  #silent = false;

  constructor(open: Open, options: AnswerOptions) {
    this.callId = open.callId;
    this.path = open.method;
    this.#open = open;
    this.#options = options;
    this.#remainingMs = open.remainingMs === 0n ? noDeadline : Number(open.remainingMs);
    this.#credit = createSendCredit(Number(open.credit));
    if (open.request) return;
    this.#requests = createReceiveQueue({
      firstBytes: firstCreditOf(this.#remainingMs),
      mostBytes: mostCreditOf(this.#remainingMs),
      budget: options.budget,
      grant: (bytes, windowBytes) => this.#write(answerGrantFrame(bytes, windowBytes)),
    });
  }

  #write(frame: Encoded): void {
    if (!this.#silent) this.#options.write(frame);
  }

  async run(): Promise<void> {
    const { callId } = this;
    const { answer, onEnded, onFailed } = this.#options;
    const stopTimer = this.#startTimer();
    let frame: Encoded;
    try {
      frame = statusFrame(callId, undefined, await this.#sendAll(answer(this.#toIncomingCall())));
    } catch (error) {
      onFailed?.(error, this);
      frame = statusFrame(callId, faultFromError(error));
    }
    stopTimer?.();
    this.#write(frame);
    this.#silent = true;
    this.#requests?.discard();
    onEnded();
  }

  #startTimer(): (() => void) | undefined {
    const { callId, path } = this;
    const remainingMs = this.#remainingMs;
    if (!Number.isFinite(remainingMs)) return undefined;
    return this.#options.clock.after(remainingMs, () =>
      this.#stop(callLateFault({ path, callId, remainingMs })),
    );
  }

  /** The work is to stop. A sender without credit waits for its reader: that wait ends too. */
  #stop(fault: Fault): void {
    this.#work.abort(fault);
    this.#credit.close(fault);
  }

  /** Sends the answer, but for its one short message where that may come with the status: that is returned. */
  async #sendAll(answers: AsyncIterable<Encoded>): Promise<Encoded | undefined> {
    let held: Encoded | undefined;
    for await (const message of answers) {
      if (this.#silent) continue;
      const room = this.#credit.take(message.byteLength);
      if (room) await room;
      if (held) this.#write(messageFrame(held));
      held = undefined;
      if (this.#open.answerInStatus && message.byteLength <= shortMessageBytes) held = message;
      else this.#write(messageFrame(message));
    }
    return held;
  }

  #toIncomingCall(): IncomingCall {
    const { traceparent, idempotencyKey, request } = this.#open;
    return {
      path: this.path,
      requests: this.#requests ?? new OneMessage(request ?? new Uint8Array()),
      callId: this.callId,
      remainingMs: this.#remainingMs,
      traceparent: readTraceparent(traceparent),
      idempotencyKey: idempotencyKey === "" ? undefined : idempotencyKey,
      metadata: noMetadata,
      peer: this.#options.peer,
      signal: this.#work.signal,
    };
  }

  onFrame(frame: CallerFrame): void {
    switch (frame.case) {
      case "message":
        if (this.#requests?.push(frame.value) === false)
          this.cancel(new Fault("INTERNAL", "the caller sent more than it was granted"));
        return;
      case "end":
        return this.#requests?.close();
      case "grant":
        return this.#credit.grant(Number(frame.value.bytes), Number(frame.value.window));
      case "open":
      case undefined:
        return;
    }
  }

  cancel(fault: Fault): void {
    this.#silent = true;
    this.#stop(fault);
    this.#requests?.discard(fault);
  }

  lose(fault: Fault): void {
    this.#silent = true;
    // What it still answers is dropped here, so that nothing waits for a reader that is gone.
    this.#credit.grant(Number.MAX_SAFE_INTEGER, 0);
    this.#requests?.close(fault);
  }
}
