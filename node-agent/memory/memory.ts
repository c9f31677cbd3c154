import type { MessageInitShape } from "@bufbuild/protobuf";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import {
  Memory,
  type MemoryWatchResponseSchema,
  WatchEventKind,
} from "../../shared/gen/fairlead/v1/memory_pb.ts";
import { createBackoff } from "../../shared/lifetime/backoff.ts";
import { type Clock, systemClock } from "../../shared/lifetime/clock.ts";
import type { Log } from "../../shared/log/log.ts";
import { noDeadline } from "../../shared/rpc/deadline.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import { type CallContext, serve, type ServedService } from "../../shared/rpc/service.ts";
import { callWorker, isWorkerGone, streamFromWorker } from "../workers/worker-calls.ts";
import type { WorkerEnvironment } from "../workers/worker-process.ts";
import { toWorkerPlan, type WorkerWorkspaces } from "../workers/worker-settings.ts";
import { startWorker, type Worker } from "../workers/worker.ts";

/** What `startMemory` takes. */
export interface MemoryHostOptions {
  /** What the machine exports, in the order of its configuration; read again at every start of the worker. */
  readonly workspaces: () => WorkerWorkspaces;
  /** What the worker inherits. */
  readonly environment: WorkerEnvironment;
  readonly clock?: Clock;
  readonly log: Log;
  /** Still for so long, in milliseconds, before a change is told; 500 by default. */
  readonly debounceMs?: number;
}

/** The `Memory` service of this machine, answered by its worker process. Disposing it ends the process. */
export interface MemoryHost extends AsyncDisposable {
  readonly service: ServedService;
  /** The configuration has changed: the worker is started anew with it. */
  reload(): Promise<void>;
  /** The worker's process id; undefined between two. */
  readonly pid: number | undefined;
}

/** Starts the Memory worker and what passes calls to it. */
export function startMemory(options: MemoryHostOptions): MemoryHost {
  const worker = startWorker({
    kind: "memory",
    plan: () =>
      toWorkerPlan(
        options.workspaces(),
        options.debounceMs === undefined ? {} : { debounceMs: options.debounceMs },
      ),
    environment: options.environment,
    log: options.log,
    ...(options.clock ? { clock: options.clock } : {}),
  });
  const service = serve(Memory, {
    list: (request, context) =>
      streamFromWorker(context, async function* (call) {
        yield* (await worker.client(Memory, context)).list(request, call);
      }),
    inspect: (request, context) =>
      callWorker(
        context,
        async (call) => await (await worker.client(Memory, context)).inspect(request, call),
      ),
    read: (request, context) =>
      callWorker(context, async (call) => await (await worker.client(Memory, context)).read(request, call)),
    watch: ({ workspace }, context) =>
      watch(worker, { workspace, context, clock: options.clock ?? systemClock }),
  });
  return {
    service,
    reload: () => worker.restart(),
    get pid() {
      return worker.pid;
    },
    [Symbol.asyncDispose]: () => worker[Symbol.asyncDispose](),
  };
}

/**
 * Passes the worker's events on. While there is no worker the watch is `unavailable`; the next one's `available` comes
 * with another epoch, so that whoever follows compares.
 */
async function* watch(
  worker: Worker,
  options: { readonly workspace: string; readonly context: CallContext; readonly clock: Clock },
): AsyncIterable<MessageInitShape<typeof MemoryWatchResponseSchema>> {
  const { workspace, context, clock } = options;
  const backoff = createBackoff({ firstMs: 100, maxMs: 5000 });
  for (;;) {
    try {
      const client = await worker.client(Memory, context);
      for await (const event of client.watch(
        { workspace },
        { signal: context.signal, deadlineMs: noDeadline },
      )) {
        if (event.kind === WatchEventKind.AVAILABLE) backoff.reset();
        yield event;
      }
      return;
    } catch (error) {
      context.signal.throwIfAborted();
      if (!isWorkerGone(error)) throw error;
      yield { kind: WatchEventKind.UNAVAILABLE, fault: toWireFault(faultFromError(error)) };
      await clock.sleep(backoff.next(), { signal: context.signal });
    }
  }
}
