import { randomUUID } from "node:crypto";
import type { Fault } from "../../shared/fault/fault.ts";
import { createCoalescingQueue, type Queue } from "../../shared/flow/queue.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { VerifiedWatch } from "../../shared/watch/verified-watch.ts";
import type { MemoryFiles } from "./memory-files.ts";
import { isWatchedMemoryPath } from "./memory-paths.ts";

/** What a watch says. */
type Said =
  | { readonly kind: "available" | "gap" }
  | { readonly kind: "changed"; readonly path: string; readonly change: "created" | "changed" | "removed" }
  | { readonly kind: "unavailable"; readonly fault: Fault };

/** One event of a watch. */
export type MemoryEvent = Said & {
  /** Names this run of the watch. */
  readonly epoch: string;
  /** Rises strictly within one epoch. */
  readonly sequence: bigint;
};

/** What `MemoryWatch` needs. */
export interface MemoryWatchOptions {
  readonly dir: string;
  readonly files: MemoryFiles;
  readonly clock: Clock;
  /** Still for so long, in milliseconds, before a change is told. */
  readonly debounceMs: number;
}

/** Most events that one slow reader may be behind; beyond them it is told to compare. */
const maxBehind = 4096;

/** The watch of one workspace's memory files, shared by everyone who asks. It runs while somebody does. */
export class MemoryWatch {
  readonly #options: MemoryWatchOptions;
  readonly #readers = new Set<Queue<MemoryEvent>>();
  readonly #epoch = randomUUID();
  #known = new Map<string, string>();
  #isScanned = false;
  #sequence = 0n;
  #watch: VerifiedWatch | undefined;
  #ending: Promise<void> = Promise.resolve();

  constructor(options: MemoryWatchOptions) {
    this.#options = options;
  }

  /** Events from now on: first `available` once everything was looked at, then each change. */
  async *subscribe(signal: AbortSignal): AsyncIterable<MemoryEvent> {
    const queue = createCoalescingQueue<MemoryEvent>({
      limit: maxBehind,
      keyOf: (event) => (event.kind === "changed" ? `changed ${event.path}` : event.kind),
      onOverflow: () => this.#event({ kind: "gap" }),
    });
    const stop = (): void => queue.close(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
    try {
      signal.throwIfAborted();
      this.#readers.add(queue);
      if (this.#watch?.isAvailable === true) void queue.push(this.#event({ kind: "available" }));
      await this.#start();
      yield* queue;
    } finally {
      this.#readers.delete(queue);
      signal.removeEventListener("abort", stop);
      queue[Symbol.dispose]();
      if (this.#readers.size === 0) await this.#stop();
    }
  }

  async #start(): Promise<void> {
    await this.#ending;
    this.#watch ??= new VerifiedWatch({
      dir: this.#options.dir,
      includes: isWatchedMemoryPath,
      scan: (signal) => this.#scan(signal),
      onAvailable: () => this.#tell({ kind: "available" }),
      onUnavailable: (fault: Fault) => this.#tell({ kind: "unavailable", fault }),
      clock: this.#options.clock,
      debounceMs: this.#options.debounceMs,
    });
  }

  async #stop(): Promise<void> {
    const watch = this.#watch;
    this.#watch = undefined;
    this.#isScanned = false;
    this.#ending = watch?.[Symbol.asyncDispose]() ?? Promise.resolve();
    await this.#ending;
  }

  async #scan(signal: AbortSignal): Promise<void> {
    const { files, skipped } = await this.#options.files.scan(signal);
    const present = new Map<string, string>(files.map((file) => [file.entry.path, file.digest]));
    for (const { path, fault } of skipped) present.set(path, fault.code);
    const known = this.#known;
    this.#known = present;
    const isFirst = !this.#isScanned;
    this.#isScanned = true;
    // Before the first scan nothing was told, so nothing has changed.
    if (isFirst) return;
    for (const [path, digest] of present) {
      const before = known.get(path);
      if (before === digest) continue;
      this.#tell({ kind: "changed", path, change: before === undefined ? "created" : "changed" });
    }
    for (const path of known.keys()) {
      if (!present.has(path)) this.#tell({ kind: "changed", path, change: "removed" });
    }
  }

  #tell(said: Said): void {
    const event = this.#event(said);
    for (const queue of this.#readers) void queue.push(event);
  }

  #event(said: Said): MemoryEvent {
    this.#sequence += 1n;
    return { ...said, epoch: this.#epoch, sequence: this.#sequence };
  }
}
