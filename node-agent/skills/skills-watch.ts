import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Fault } from "../../shared/fault/fault.ts";
import { createCoalescingQueue } from "../../shared/flow/queue.ts";
import { WatchEventKind } from "../../shared/gen/fairlead/v1/memory_pb.ts";
import type { SkillsWatchResponseSchema } from "../../shared/gen/fairlead/v1/skills_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import { VerifiedWatch } from "../../shared/watch/verified-watch.ts";
import { isWatchedSkillPath } from "./skill-paths.ts";

type Event = MessageInitShape<typeof SkillsWatchResponseSchema>;

/** What `SkillsWatch` needs. */
export interface SkillsWatchOptions {
  /** The folders of all workspaces. */
  readonly dirs: readonly string[];
  /** The digest of what is published now. */
  readonly digest: (signal: AbortSignal) => Promise<string>;
  readonly clock: Clock;
  readonly debounceMs: number;
  readonly epoch: string;
}

/** Tells when what is published has changed: a `changed` with the new digest after the first scan and after each change. */
export class SkillsWatch {
  readonly #options: SkillsWatchOptions;
  #digest: string | undefined;
  #sequence = 0n;

  constructor(options: SkillsWatchOptions) {
    this.#options = options;
  }

  /** Events from now on, until the signal ends it. */
  async *follow(signal: AbortSignal): AsyncIterable<Event> {
    const queue = createCoalescingQueue<Event>({
      limit: 16,
      keyOf: (event) => String(event.kind),
      onOverflow: () => this.#event(WatchEventKind.GAP),
    });
    const stop = (): void => queue.close(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    const push = (kind: WatchEventKind, fault?: Fault): void => void queue.push(this.#event(kind, fault));
    const scan = async (scanSignal: AbortSignal): Promise<void> => {
      const digest = await this.#options.digest(scanSignal);
      if (digest === this.#digest) return;
      this.#digest = digest;
      push(WatchEventKind.CHANGED);
    };
    const watches = new AsyncDisposableStack();
    try {
      // What is there is told at once; what changes while the watches begin is seen by their own first scans.
      await scan(signal);
      for (const dir of this.#options.dirs) {
        const watch = new VerifiedWatch({
          dir,
          includes: isWatchedSkillPath,
          scan,
          onAvailable: () => push(WatchEventKind.AVAILABLE),
          onUnavailable: (fault) => push(WatchEventKind.UNAVAILABLE, fault),
          clock: this.#options.clock,
          debounceMs: this.#options.debounceMs,
        });
        watches.use(watch);
      }
      yield* queue;
    } finally {
      signal.removeEventListener("abort", stop);
      queue[Symbol.dispose]();
      await watches.disposeAsync();
    }
  }

  #event(kind: WatchEventKind, fault?: Fault): Event {
    this.#sequence += 1n;
    const { epoch } = this.#options;
    return {
      kind,
      epoch,
      digest: this.#digest ?? "",
      sequence: this.#sequence,
      ...(fault ? { fault: toWireFault(fault) } : {}),
    };
  }
}
