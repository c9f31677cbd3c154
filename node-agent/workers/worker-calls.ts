import { isFault } from "../../shared/fault/fault.ts";
import type { CallContext, CallOptions } from "../../shared/rpc/service.ts";

/** Whether a call failed because its worker process ended. */
export function isWorkerGone(error: unknown): boolean {
  return isFault(error, "IO_ERROR") && error.details["reason"] === "worker_gone";
}

/** A call that may be repeated is made once more, on the next worker, when its worker ended meanwhile. */
export async function callWorker<T>(
  context: CallContext,
  call: (options: CallOptions) => Promise<T>,
): Promise<T> {
  try {
    return await call(toOptions(context));
  } catch (error) {
    context.signal.throwIfAborted();
    if (!isWorkerGone(error)) throw error;
    return await call(toOptions(context));
  }
}

/** The same for a stream, as long as nothing of it was passed on; else the fault goes to the caller, who may repeat. */
export async function* streamFromWorker<T>(
  context: CallContext,
  call: (options: CallOptions) => AsyncIterable<T>,
): AsyncIterable<T> {
  let passed = 0;
  try {
    for await (const message of call(toOptions(context))) {
      passed += 1;
      yield message;
    }
  } catch (error) {
    context.signal.throwIfAborted();
    if (!isWorkerGone(error) || passed > 0) throw error;
    yield* call(toOptions(context));
  }
}

function toOptions(context: CallContext): CallOptions {
  return { signal: context.signal, deadlineMs: Math.max(1, Math.ceil(context.remainingMs)) };
}
