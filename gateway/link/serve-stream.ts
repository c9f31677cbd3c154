import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import type { Fault } from "../../shared/fault/fault.ts";
import type { Encoded } from "../../shared/rpc/encoded.ts";
import type { ServerRawStream } from "../../shared/rpc/raw-stream.ts";
import { notThisCallFault, type CallListener, type CallPort } from "../../shared/rpc/reverse/caller.ts";
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
  /** Something arrived that belongs to no call. */
  onDropped(): void;
  /** What calls fail with that lose their stream. */
  lostFault(): Fault;
}

/** A status is a small message; a larger one that belongs to no call is not worth a look. */
const maxStatusBytes = 64 * 1024;

/** So many cancelled streams of this process may stay for a turn: each holds what comes on it meanwhile. */
const maxLingering = 16;
let lingeringCount = 0;

/** One stream that a node parked here: it carries one call after the other. */
export class ServeStream implements CallPort {
  readonly #raw: ServerRawStream;
  readonly #owner: StreamOwner;
  #listener: CallListener | undefined;
  /** The call that it carries, or carried last. */
  #callId = "";
  #cancelled = false;
  #gone = false;
  /** Whether the call on it is a stream that stays open. */
  staysOpen = false;
  /** When it was parked last, in milliseconds of the link's clock. */
  parkedAt = 0;

  constructor(raw: ServerRawStream, owner: StreamOwner) {
    this.#raw = raw;
    this.#owner = owner;
  }

  /** The call that it carries now; undefined while it is parked. */
  get callId(): string | undefined {
    return this.#listener?.callId;
  }

  /** A message of the stream. */
  onMessage(bytes: Buffer): void {
    this.#owner.onAlive();
    if (!this.#listener) return this.#drop(bytes);
    let frame: AnswerFrame;
    try {
      frame = readAnswerFrame(bytes);
    } catch (error) {
      this.#giveUp(faultFromError(error));
      return;
    }
    this.#listener.onFrame(frame);
  }

  /** No call is there for it. Whoever names a call that this stream never carried is told so. */
  #drop(bytes: Buffer): void {
    this.#owner.onDropped();
    if (this.#cancelled || bytes.byteLength > maxStatusBytes) return;
    try {
      const frame = readAnswerFrame(bytes);
      if (frame.case !== "status" || frame.value.callId === "" || frame.value.callId === this.#callId) return;
      this.#refuse(notThisCallFault(frame.value.callId));
    } catch {
      // What is no frame belongs to no call either.
    }
  }

  /** The stream ended, by whomever. */
  onClosed(): void {
    this.#giveUp(this.#owner.lostFault());
  }

  /** The link is over, and the connection soon. */
  lose(): void {
    this.#leave(this.#owner.lostFault());
  }

  /** Ends the call that it carries, if there is one. */
  cancelNow(fault: Fault): void {
    this.#listener?.onCancelled(fault);
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
    if (!this.#gone && !this.#cancelled) this.#raw.write(frame);
  }

  attach(listener: CallListener): void {
    this.#listener = listener;
    this.#callId = listener.callId;
    if (this.#gone) listener.onLost(this.#owner.lostFault());
  }

  release(): void {
    this.#listener = undefined;
    if (!this.#gone) this.#owner.onFree(this);
  }

  cancel(callId: string, fault: Fault): void {
    this.#listener = undefined;
    if (this.#gone || this.#cancelled) return;
    this.#cancelled = true;
    this.#owner.cancelCall(callId, fault);
    this.#resetSoon(fault);
  }

  /** What the node has sent by now is dropped and counted: a few streams stay for one more turn, in which sockets are read. */
  #resetSoon(fault: Fault): void {
    const stays = lingeringCount < maxLingering;
    if (!stays) return void setImmediate(() => this.#giveUp(fault));
    lingeringCount += 1;
    const end = (): void => {
      lingeringCount -= 1;
      this.#giveUp(fault);
    };
    setImmediate(() => void setImmediate(end));
  }

  refuse(fault: Fault): void {
    this.#owner.onDropped();
    this.#refuse(fault);
  }

  #refuse(fault: Fault): void {
    this.#listener = undefined;
    this.#raw.end(fault);
    if (this.#gone) return;
    this.#gone = true;
    this.#owner.onGone(this);
  }

  /** Ends a free stream cleanly: the node does not replace it. */
  end(): void {
    if (this.#gone) return;
    this.#gone = true;
    this.#raw.end();
    this.#owner.onGone(this);
  }
}
