import { createCoalescingQueue, type CoalesceOptions, type Queue } from "./queue.ts";

/** How a watcher listens. */
export interface WatchOptions<T> {
  /** Ends the watching, without an error. */
  readonly signal: AbortSignal;
  /** What the watcher gets before anything that is told; asked when it begins. */
  readonly first?: () => Iterable<T>;
}

/** Tells everyone who watches. Whoever reads slowly gets the newest item of each key; nobody waits for them. */
export interface Broadcast<T> {
  tell(item: T): void;
  /** What is told from the first `next` on; ends with the signal, or with `close`. */
  watch(options: WatchOptions<T>): AsyncGenerator<T, undefined>;
  /** Ends everyone's watching once they have what was told. */
  close(): void;
}

/** A broadcast; the options hold for the queue of each watcher. Whoever made it closes it, unless all watchers end themselves. */
export function createBroadcast<T>(options: CoalesceOptions<T>): Broadcast<T> {
  const watchers = new Set<Queue<T>>();
  return {
    tell: (item) => {
      for (const queue of watchers) void queue.push(item);
    },
    watch: async function* watch({ signal, first }) {
      using queue = createCoalescingQueue(options);
      const onAbort = (): void => queue.close();
      signal.addEventListener("abort", onAbort, { once: true });
      watchers.add(queue);
      try {
        if (signal.aborted) return undefined;
        for (const item of first?.() ?? []) void queue.push(item);
        yield* queue;
      } finally {
        watchers.delete(queue);
        signal.removeEventListener("abort", onAbort);
      }
      return undefined;
    },
    close: () => {
      for (const queue of watchers) queue.close();
    },
  };
}
