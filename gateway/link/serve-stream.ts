import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import type { Fault } from "../../shared/fault/fault.ts";
import type { Encoded } from "../../shared/rpc/encoded.ts";
import type { ServerRawStream } from "../../shared/rpc/raw-stream.ts";
import type { CallListener, CallPort } from "../../shared/rpc/reverse/caller.ts";
import { readAnswerFrame, type AnswerFrame } from "../../shared/rpc/reverse/frames.ts";

/** What a stream tells the pool that it belongs to. */
export interface StreamOwner {
  /** The stream is free. */
  onFree(stream: ServeStream): void;
  /** The stream is gone; it was free or its call has heard of it. */
  onGone(stream: ServeStream): void;
  /** The node should stop the work of a call. */
  cancelCall(callId: string, fault: Fault): void;
  /** Something arrived: the node lives. */
  onAlive(): void;
  /** What calls fail with that lose their stream. */
  lostFault(): Fault;
}

/** One stream that a node parked here: it carries one call after the other. */
export class ServeStream implements CallPort {
  readonly #raw: ServerRawStream;
  readonly #owner: StreamOwner;
  #listener: CallListener | undefined;
  #gone = false;
  /** Whether the call on it is a stream that stays open. */
  staysOpen = false;
  /** When it was parked last, in milliseconds of the link's clock. */
  parkedAt = 0;

  constructor(raw: ServerRawStream, owner: StreamOwner) {
    this.#raw = raw;
    this.#owner = owner;
  }

  /** A message of the stream. */
  onMessage(bytes: Buffer): void {
    this.#owner.onAlive();
    if (!this.#listener) return;
    let frame: AnswerFrame;
    try {
      frame = readAnswerFrame(bytes);
    } catch (error) {
      this.#giveUp(faultFromError(error));
      return;
    }
    this.#listener.onFrame(frame);
  }

  /** The stream ended, by whomever. */
  onClosed(): void {
    this.#giveUp(this.#owner.lostFault());
  }

  /** The link is over, and the connection soon. */
  lose(): void {
    this.#leave(this.#owner.lostFault());
  }

  #giveUp(fault: Fault): void {
    if (!this.#gone) this.#raw.reset();
    this.#leave(fault);
  }

  #leave(fault: Fault): void {
    if (this.#gone) return;
    this.#gone = true;
    const listener = this.#listener;
    this.#listener = undefined;
    listener?.onLost(fault);
    this.#owner.onGone(this);
  }

  write(frame: Encoded): void {
    if (!this.#gone) this.#raw.write(frame);
  }

  attach(listener: CallListener): void {
    this.#listener = listener;
    if (this.#gone) listener.onLost(this.#owner.lostFault());
  }

  release(): void {
    this.#listener = undefined;
    if (!this.#gone) this.#owner.onFree(this);
  }

  cancel(callId: string, fault: Fault): void {
    this.#listener = undefined;
    if (this.#gone) return;
    this.#owner.cancelCall(callId, fault);
    this.#giveUp(fault);
  }

  /** Ends a free stream cleanly: the node does not replace it. */
  end(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#raw.end();
    this.#owner.onGone(this);
  }
}
