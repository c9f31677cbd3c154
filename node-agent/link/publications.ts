import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { createCoalescingQueue, type Queue } from "../../shared/flow/queue.ts";
import { NoticeSchema, type Notice, type PublicationKind } from "../../shared/gen/fairlead/v1/link_pb.ts";
import { raceSignal } from "../../shared/lifetime/clock.ts";
import type { Publications } from "./link-options.ts";

/** What the features of a node publish, as the link tells it. */
export interface PublicationBoard extends Publications {
  /** Sets one publication; an equal digest changes nothing and is told to nobody. */
  publish(notice: Omit<MessageInitShape<typeof NoticeSchema>, "$typeName">): void;
  /** Resolves once the gateway has read what is published, but for the kinds left out; rejects with the signal's reason. */
  untilRead(signal: AbortSignal, without?: readonly PublicationKind[]): Promise<void>;
}

/** A board that publishes nothing yet. */
export function createPublicationBoard(): PublicationBoard {
  const notices = new Map<PublicationKind, Notice>();
  const readers = new Set<Queue<Notice>>();
  const read = new Map<PublicationKind, string>();
  let onRead = Promise.withResolvers<void>();
  const isRead = (without: readonly PublicationKind[]): boolean => {
    const wanted = notices.values().filter(({ publication }) => !without.includes(publication));
    return notices.size > 0 && wanted.every(({ publication, digest }) => read.get(publication) === digest);
  };
  return {
    onRead: ({ publication, digest }) => {
      read.set(publication, digest);
      onRead.resolve();
      onRead = Promise.withResolvers<void>();
    },
    untilRead: async (signal, without = []) => {
      while (!isRead(without)) await raceSignal(onRead.promise, signal);
    },
    current: () => [...notices.values()],
    publish: (init) => {
      const notice = create(NoticeSchema, init);
      if (notices.get(notice.publication)?.digest === notice.digest) return;
      notices.set(notice.publication, notice);
      for (const reader of readers) void reader.push(notice);
    },
    changes: async function* changes({ signal }) {
      // One place a kind is enough: the newest notice of a kind says all that older ones did.
      const reader = createCoalescingQueue<Notice>({
        limit: 16,
        keyOf: ({ publication }) => String(publication),
        onOverflow: () => create(NoticeSchema),
      });
      const onAbort = (): void => reader.close();
      signal.addEventListener("abort", onAbort, { once: true });
      readers.add(reader);
      try {
        if (!signal.aborted) yield* reader;
      } finally {
        readers.delete(reader);
        signal.removeEventListener("abort", onAbort);
      }
    },
  };
}
