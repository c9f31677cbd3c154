import type { Notice, PublicationKind } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Link } from "./link.ts";
import type { LiveLink, PublicationReader } from "./links.ts";
import type { NodeState } from "./node-state.ts";

/** What reading publications needs. */
export interface PublicationsOptions {
  readonly clock: Clock;
  /** Hears of a reading that failed; it is tried again while the link lives. */
  readonly onFault: (
    error: unknown,
    about: { readonly nodeId: string; readonly kind: PublicationKind },
  ) => void;
  /** A link as a reader uses it: its calls are carried also while the node takes no new ones. */
  readonly forReading: (node: NodeState, link: Link) => LiveLink;
}

const retryFirstMs = 500;
const retryMaxMs = 30_000;

interface Wanted {
  latest: Notice;
  reading: boolean;
  /** The digest that the node knows to be read. */
  told?: string;
}

/** Pulls what nodes publish: one call when a digest is new, none when it is the one that was read last. */
export class Publications {
  readonly #options: PublicationsOptions;
  readonly #readers = new Map<PublicationKind, PublicationReader>();
  readonly #wanted = new WeakMap<Link, Map<PublicationKind, Wanted>>();

  constructor(options: PublicationsOptions) {
    this.#options = options;
  }

  /** Adds a reader; one a kind. */
  add(reader: PublicationReader): void {
    this.#readers.set(reader.kind, reader);
  }

  /** A node said what it publishes. Only the newest notice of a live link counts. */
  notice(node: NodeState, link: Link, notice: Notice): void {
    if (node.link !== link) return;
    const kinds = this.#wanted.get(link) ?? new Map<PublicationKind, Wanted>();
    this.#wanted.set(link, kinds);
    const wanted = kinds.get(notice.publication);
    if (wanted) {
      if (notice.epoch < wanted.latest.epoch) return;
      wanted.latest = notice;
      if (!wanted.reading) void this.#read(node, link, wanted);
      return;
    }
    const first: Wanted = { latest: notice, reading: false };
    kinds.set(notice.publication, first);
    void this.#read(node, link, first);
  }

  /** Reads what was said before the reader was there. */
  catchUp(node: NodeState, link: Link): void {
    for (const wanted of this.#wanted.get(link)?.values() ?? []) {
      if (!wanted.reading) void this.#read(node, link, wanted);
    }
  }

  /** Withdraws everything of a node, in one synchronous step. */
  withdraw(nodeId: string, reason: "node_offline" | "revoked"): void {
    for (const reader of this.#readers.values()) reader.withdraw(nodeId, reason);
  }

  async #read(node: NodeState, link: Link, wanted: Wanted): Promise<void> {
    const kind = wanted.latest.publication;
    const reader = this.#readers.get(kind);
    if (!reader) return;
    wanted.reading = true;
    let waitMs = retryFirstMs;
    try {
      while (node.link === link && node.digests.get(kind) !== wanted.latest.digest) {
        const { epoch, digest } = wanted.latest;
        try {
          await reader.read(this.#options.forReading(node, link), { epoch, digest });
          // A link that ended meanwhile may have been withdrawn already.
          if (node.link === link) node.digests.set(kind, digest);
          waitMs = retryFirstMs;
        } catch (error) {
          if (link.signal.aborted) return;
          this.#options.onFault(error, { nodeId: node.presence.nodeId, kind });
          await this.#options.clock.sleep(waitMs, { signal: link.signal });
          waitMs = Math.min(retryMaxMs, waitMs * 2);
        }
      }
    } catch {
      // The link ended while a failed reading waited for its next try.
    } finally {
      wanted.reading = false;
    }
    // Also when it was read over an earlier link: the node wants to know that it is there.
    const digest = node.digests.get(kind);
    if (node.link !== link || digest === undefined || digest === wanted.told) return;
    wanted.told = digest;
    link.send({ case: "read", value: { publication: kind, digest } });
  }
}
