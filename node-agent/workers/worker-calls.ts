import { isFault } from "../../shared/fault/fault.ts";
import type { CallContext, CallOptions } from "../../shared/rpc/service.ts";

/** Workers that one call is given to, one after the other, as each ends meanwhile. */
const attempts = 3;

/** Whether a call failed because its worker process ended. */
export function isWorkerGone(error: unknown): boolean {
  return isFault(error, "IO_ERROR") && error.details["reason"] === "worker_gone";
}

/** A call that may be repeated is made again, on the next worker, when its worker ended meanwhile. */
export async function callWorker<T>(
  context: CallContext,
  call: (options: CallOptions) => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await call(toOptions(context));
    } catch (error) {
      context.signal.throwIfAborted();
      if (attempt === attempts || !isWorkerGone(error)) throw error;
    }
  }
}

/** The same for a stream, as long as nothing of it was passed on; else the fault goes to the caller, who may repeat. */
export async function* streamFromWorker<T>(
  context: CallContext,
  call: (options: CallOptions) => AsyncIterable<T>,
): AsyncIterable<T> {
  for (let attempt = 1, passed = 0; ; attempt += 1) {
    try {
      for await (const message of call(toOptions(context))) {
        passed += 1;
        yield message;
      }
      return;
    } catch (error) {
      context.signal.throwIfAborted();
      if (attempt === attempts || passed > 0 || !isWorkerGone(error)) throw error;
    }
  }
}

function toOptions(context: CallContext): CallOptions {
  return { signal: context.signal, deadlineMs: Math.max(1, Math.ceil(context.remainingMs)) };
}
