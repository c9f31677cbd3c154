import type { Readable, Writable } from "node:stream";
import type { DescService } from "@bufbuild/protobuf";
import { faultFromError } from "../fault/fault-from-error.ts";
import { Fault } from "../fault/fault.ts";
import { systemClock, type Clock } from "../lifetime/clock.ts";
import { createDispatcher } from "./dispatch.ts";
import { startAnswer, type AnsweredCall } from "./reverse/answerer.ts";
import { createBudget } from "./reverse/budget.ts";
import { carryCall, type CallListener, type CallPort } from "./reverse/caller.ts";
import { readAnswerFrame, readCallerFrame, statusFrame } from "./reverse/frames.ts";
import type { Client, ServedService } from "./service.ts";
import { readFrames, writeFrame, type NumberedFrame } from "./stdio-frames.ts";
import { createClient } from "./transport.ts";

/** Bytes that all calls of one pipe may have in flight each way. */
const pipeBudgetBytes: number = 64 * 1024 * 1024;

/** Calls that may run over one pipe at once. */
const maxPipeCalls = 1024;

/** What `serveStdio` takes. */
export interface StdioServerOptions {
  readonly services: readonly ServedService[];
  /** Where frames come from; its end ends the server. */
  readonly input: Readable;
  /** Where answers go. */
  readonly output: Writable;
  readonly clock?: Clock;
  /** Hears every failure of a call before it travels; for the log. */
  readonly onFailed?: (error: unknown, call: { readonly callId: string; readonly path: string }) => void;
}

/** Services served over a pair of pipes. */
export interface StdioServer extends AsyncDisposable {
  /** Resolves with the reason when the input has ended or broke; never rejects. Running calls are cancelled then. */
  readonly closed: Promise<Fault>;
}

/** Serves services over framed stdio, to the process at the other end. */
export function serveStdio(options: StdioServerOptions): StdioServer {
  const { input, output, clock = systemClock } = options;
  const dispatcher = createDispatcher(options.services);
  const budget = createBudget(pipeBudgetBytes);
  const calls = new Map<number, AnsweredCall>();
  const begin = ({ number, bytes }: NumberedFrame): void => {
    const frame = readCallerFrame(bytes);
    if (frame.case !== "open") return;
    if (calls.size >= maxPipeCalls)
      return writeFrame(output, number, statusFrame(frame.value.callId, tooManyCallsFault()));
    const call = startAnswer(frame.value, {
      write: (written) => writeFrame(output, number, written),
      answer: (arrived) => dispatcher.answer(arrived),
      peer: { address: "" },
      budget,
      clock,
      onEnded: () => void calls.delete(number),
      ...(options.onFailed ? { onFailed: options.onFailed } : {}),
    });
    calls.set(number, call);
  };
  const closed = pump(input, (frame) => {
    const call = calls.get(frame.number);
    if (!call) begin(frame);
    else if (frame.bytes.byteLength > 0) call.onFrame(readCallerFrame(frame.bytes));
    else call.cancel(new Fault("CANCELLED", "the caller has left"));
  }).then((fault) => {
    for (const call of calls.values()) call.cancel(fault);
    return fault;
  });
  output.on("error", () => void input.destroy());
  return {
    closed,
    [Symbol.asyncDispose]: async () => {
      input.destroy();
      await closed;
    },
  };
}

function tooManyCallsFault(): Fault {
  return new Fault("LIMIT_REACHED", `more than ${maxPipeCalls} calls run over this pipe`, {
    details: { limit: maxPipeCalls, actual: maxPipeCalls + 1 },
  });
}

async function pump(input: Readable, take: (frame: NumberedFrame) => void): Promise<Fault> {
  try {
    for await (const frame of readFrames(input)) take(frame);
    return new Fault("CANCELLED", "the process at the other end has gone");
  } catch (error) {
    return error instanceof Fault ? error : new Fault("CANCELLED", "the pipe was closed", { cause: error });
  }
}

/** What `openStdioClient` takes. */
export interface StdioClientOptions {
  /** The other process's output. */
  readonly input: Readable;
  /** The other process's input. */
  readonly output: Writable;
  readonly clock?: Clock;
  /** What calls fail with when the other process is gone; `IO_ERROR`, retryable, by default. */
  readonly gone?: () => Fault;
}

/** A client of services over a pair of pipes. Disposing it ends the output, which ends the server. */
export interface StdioClient extends AsyncDisposable {
  client<S extends DescService>(service: S): Client<S>;
  /** Resolves with the fault that calls get once the other process is gone; never rejects. */
  readonly closed: Promise<Fault>;
}

/** Calls services that another process serves with `serveStdio`. */
export function openStdioClient(options: StdioClientOptions): StdioClient {
  const { input, output, clock = systemClock } = options;
  const gone =
    options.gone ??
    (() =>
      new Fault("IO_ERROR", "the worker process is gone", {
        retryable: true,
        details: { reason: "worker_gone" },
      }));
  const budget = createBudget(pipeBudgetBytes);
  const listeners = new Map<number, CallListener>();
  let ended: Fault | undefined;
  let lastNumber = 0;
  const openPort = (): CallPort => {
    lastNumber = (lastNumber + 1) >>> 0;
    const number = lastNumber;
    const leave = (): void => {
      listeners.delete(number);
      writeFrame(output, number, undefined);
    };
    return {
      write: (frame) => writeFrame(output, number, frame),
      attach: (listener) => void listeners.set(number, listener),
      release: () => void listeners.delete(number),
      cancel: leave,
      refuse: leave,
    };
  };
  const closed = pump(input, ({ number, bytes }) => {
    listeners.get(number)?.onFrame(readAnswerFrame(bytes));
  }).then((reason) => {
    ended = gone();
    const fault = reason.code === "CANCELLED" ? ended : faultFromError(reason);
    for (const listener of listeners.values()) listener.onLost(fault);
    listeners.clear();
    return fault;
  });
  // A broken pipe shows as the end of the input; unheard, it would end the process.
  output.on("error", () => undefined);
  return {
    client: (service) =>
      createClient(service, (outgoing) => {
        if (ended) throw ended;
        return carryCall(openPort(), outgoing, { budget, clock, shortCalls: true });
      }),
    closed,
    [Symbol.asyncDispose]: async () => {
      output.end();
      await closed;
    },
  };
}
