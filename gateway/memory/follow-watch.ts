import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { type MemoryWatchResponse, WatchEventKind } from "../../shared/gen/fairlead/v1/memory_pb.ts";
import { createBackoff } from "../../shared/lifetime/backoff.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { noDeadline } from "../../shared/rpc/deadline.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import type { NodeCall } from "./node-files.ts";

/** What is told of a watch. */
export interface WatchListener {
  readonly clock: Clock;
  /** Events may be missing: the whole list is to be compared. */
  onCompare(): void;
  /** This file was made, changed or removed. */
  onChanged(path: string): void;
  /** The watch does not run, or, without a fault, it runs again. */
  onTrouble(fault: Fault | undefined): void;
}

/** Follows the watch of a workspace's memory files, and subscribes again with back-off, until the signal ends it. */
export async function followWatch(call: NodeCall, listener: WatchListener): Promise<void> {
  const backoff = createBackoff({ firstMs: 500, maxMs: 30_000 });
  for (;;) {
    try {
      const events = call.client.watch(
        { workspace: call.workspace },
        { signal: call.signal, deadlineMs: noDeadline },
      );
      for await (const event of events) {
        if (event.kind === WatchEventKind.AVAILABLE) backoff.reset();
        tell(event, listener);
      }
      listener.onTrouble(new Fault("NODE_OFFLINE", "the watch ended"));
    } catch (error) {
      call.signal.throwIfAborted();
      listener.onTrouble(faultFromError(error));
    }
    listener.onCompare();
    await listener.clock.sleep(backoff.next(), { signal: call.signal });
  }
}

function tell(event: MemoryWatchResponse, listener: WatchListener): void {
  switch (event.kind) {
    case WatchEventKind.AVAILABLE:
      listener.onTrouble(undefined);
      listener.onCompare();
      return;
    case WatchEventKind.CHANGED:
      listener.onChanged(event.path);
      return;
    case WatchEventKind.UNAVAILABLE:
      listener.onTrouble(
        event.fault ? fromWireFault(event.fault) : new Fault("IO_ERROR", "the watch is unavailable"),
      );
      return;
    case WatchEventKind.GAP:
    case WatchEventKind.UNSPECIFIED:
      listener.onCompare();
  }
}
