import { setImmediate } from "node:timers/promises";
import { Fault } from "../../shared/fault/fault.ts";
import { CallClass } from "../../shared/gen/fairlead/v1/options_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { callTraitsOf } from "../../shared/rpc/call-traits.ts";
import type { Dispatcher } from "../../shared/rpc/dispatch.ts";
import type { ClientRawStream } from "../../shared/rpc/raw-stream.ts";
import { startAnswer, type Answer, type AnsweredCall } from "../../shared/rpc/reverse/answerer.ts";
import type { Budget } from "../../shared/rpc/reverse/budget.ts";
import { parkedFrame, readCallerFrame, type CallerFrame } from "../../shared/rpc/reverse/frames.ts";

/** Streams that a node opens on one connection, whatever the gateway asks for. */
const maxServeStreams = 64 + 1024;

/** What the parked streams of one connection need. */
export interface ServeStreamsOptions {
  /** Opens one stream of `NodeLink.Serve`. */
  readonly open: () => ClientRawStream;
  readonly generation: bigint;
  readonly dispatcher: Dispatcher;
  readonly answer: Answer;
  readonly budget: Budget;
  readonly clock: Clock;
  /** Every call that runs on any connection, also one whose stream is lost. */
  readonly running: Set<AnsweredCall>;
  /** Something of the gateway arrived. */
  readonly onAlive: () => void;
  /** Hears every failure of a call before it travels. */
  readonly onFailed: (error: unknown, call: { readonly callId: string; readonly path: string }) => void;
}

/** The streams that a node holds parked on one connection, and the calls that run on them. */
export class ServeStreams {
  readonly #options: ServeStreamsOptions;
  readonly #calls = new Map<string, AnsweredCall>();
  readonly #streams = new Set<ClientRawStream>();
  #onIdle: (() => void)[] = [];
  #over = false;

  constructor(options: ServeStreamsOptions) {
    this.#options = options;
  }

  /** Streams that are open. */
  get count(): number {
    return this.#streams.size;
  }

  /** Calls that run. */
  get callCount(): number {
    return this.#calls.size;
  }

  /** Opens streams until there are `targetCount`; a few at a time, so that the first serves before the last is open. */
  async openUntil(targetCount: number): Promise<void> {
    const wanted = Math.min(targetCount, maxServeStreams);
    while (!this.#over && this.#streams.size < wanted) {
      this.#openOne();
      await setImmediate();
    }
  }

  #openOne(): void {
    const stream = this.#options.open();
    this.#streams.add(stream);
    let call: AnsweredCall | undefined;
    const onFrame = (frame: CallerFrame): void => {
      if (call) return call.onFrame(frame);
      // What comes between a status and the next call belongs to a call that is over.
      if (frame.case !== "open") return;
      const begun = startAnswer(frame.value, {
        ...this.#options,
        write: (written) => stream.write(written),
        peer: { address: "" },
        onEnded: () => {
          if (call === begun) call = undefined;
          this.#options.running.delete(begun);
          this.#forget(begun);
        },
      });
      call = begun;
      this.#options.running.add(begun);
      this.#calls.set(begun.callId, begun);
    };
    stream.onMessage((bytes) => {
      this.#options.onAlive();
      try {
        onFrame(readCallerFrame(bytes));
      } catch {
        // A gateway that sends no frames: the call of this stream cannot go on.
        stream.cancel();
      }
    });
    stream.onClosed((fault) => {
      this.#streams.delete(stream);
      if (call) this.#lose(call, fault ?? new Fault("CANCELLED", "the gateway ended the stream"));
      // A stream that was broken off is replaced; one that was ended, or whose link is gone, is not.
      if (fault?.code === "CANCELLED" && !this.#over && this.#streams.size < maxServeStreams) this.#openOne();
    });
    stream.write(parkedFrame(this.#options.generation));
  }

  #forget(call: AnsweredCall): void {
    if (this.#calls.get(call.callId) === call) this.#calls.delete(call.callId);
    if (this.#calls.size > 0) return;
    for (const onIdle of this.#onIdle.splice(0)) onIdle();
  }

  /**
   * The stream is gone: what must run once goes on for the ledger, the rest stops. When the stream was broken off because
   * the caller has gone, the control stream says so too, and that stops the rest.
   */
  #lose(call: AnsweredCall, fault: Fault): void {
    const callClass = this.#classOf(call);
    if (callClass === CallClass.AT_MOST_ONCE || callClass === CallClass.JOB)
      call.lose(brokenRequestFault(call.path));
    else call.cancel(fault);
  }

  /** The gateway cancels a call; unknown ids are calls that are over. */
  cancelCall(callId: string, fault: Fault): void {
    this.#calls.get(callId)?.cancel(fault);
  }

  /** Lets go of the jobs, which go on: whoever wants one comes back to it over another link. */
  leaveJobs(fault: Fault): void {
    for (const call of this.#calls.values()) {
      if (this.#classOf(call) !== CallClass.JOB) continue;
      call.lose(fault);
      this.#forget(call);
    }
  }

  /** Ends the calls that follow something and never end by themselves. */
  endFollowers(fault: Fault): void {
    for (const call of this.#calls.values()) {
      const method = this.#options.dispatcher.find(call.path);
      if (method && callTraitsOf(method).follows) call.cancel(fault);
    }
  }

  #classOf(call: AnsweredCall): CallClass | undefined {
    const method = this.#options.dispatcher.find(call.path);
    return method && callTraitsOf(method).callClass;
  }

  /** Resolves when no call runs. */
  async idle(): Promise<void> {
    if (this.#calls.size === 0) return;
    await new Promise<void>((resolve) => void this.#onIdle.push(resolve));
  }

  /** Ends every call that runs: they are part of a drain whose time is over. */
  cancelAll(fault: Fault): void {
    for (const call of this.#calls.values()) call.cancel(fault);
  }

  /** The connection is over. */
  lose(fault: Fault): void {
    this.#over = true;
    for (const call of this.#calls.values()) this.#lose(call, fault);
    this.#streams.clear();
    for (const onIdle of this.#onIdle.splice(0)) onIdle();
  }
}

/** What the work of a call gets that still reads its request when the link is lost. */
function brokenRequestFault(path: string): Fault {
  return new Fault("NODE_OFFLINE", `the link broke before the request of ${path} was whole`, {
    details: { reason: "link_lost", stage: "dispatched" },
  });
}
