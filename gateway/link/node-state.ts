import { Fault } from "../../shared/fault/fault.ts";
import { type Broadcast, createBroadcast } from "../../shared/flow/broadcast.ts";
import { raceSignal, type Clock } from "../../shared/lifetime/clock.ts";
import type { LateCall } from "./late-outcomes.ts";
import type { Link } from "./link.ts";
import type { CloneReport, NodeDrain, Presence, PresenceState, ReportedIdentity } from "./links.ts";
import { NodeTally } from "./node-tally.ts";

/** Tells watchers where nodes stand. One item a node, whatever happens: the number of nodes is the bound. */
export function createPresenceBroadcast(): Broadcast<Presence> {
  return createBroadcast<Presence>({
    limit: Number.MAX_SAFE_INTEGER,
    keyOf: ({ nodeId }) => nodeId,
    onOverflow: () => neverLinked("", 0),
  });
}

/** What a node's state tells whoever watches it. */
export interface NodeStateOptions {
  /** Where it stands at first. */
  readonly first: Presence;
  readonly clock: Clock;
  /** Hears every change, after it. */
  readonly onChange: (presence: Presence) => void;
  /** Everything that the node publishes is withdrawn, in one synchronous step. */
  readonly withdraw: (reason: "node_offline" | "revoked") => void;
  /** Hears of a call that runs at most once and whose time passed while the node had it. */
  readonly onRanOut: (call: LateCall, node: NodeState) => void;
}

/**
 * Where one node stands. States: `offline` (never linked, said goodbye, silent for too long), `online`, `draining`
 * (linked, takes no new calls), `reconnecting` (the link broke, the node may be back soon), `revoked`.
 */
export class NodeState {
  readonly #options: NodeStateOptions;
  #presence: Presence;
  #link: Link | undefined;
  #waiting: Waiting[] = [];
  /** The last read digest of each publication kind; forgotten when the node's things are withdrawn. */
  readonly digests: Map<number, string> = new Map();
  /** What the node got wrong. */
  readonly tally: NodeTally = new NodeTally();
  /** Its drain, while an administrator has taken it out of service. */
  drain: NodeDrain | undefined;

  constructor(options: NodeStateOptions) {
    this.#options = options;
    this.#presence = options.first;
  }

  get presence(): Presence {
    const seen = this.#link?.lastSeenMs;
    return seen === undefined ? this.#presence : { ...this.#presence, lastSeenMs: seen };
  }

  get nodeId(): string {
    return this.#presence.nodeId;
  }

  /** The time of a call that runs at most once passed while the node had it. */
  ranOut(call: LateCall): void {
    this.#options.onRanOut(call, this);
  }

  /** The live link, if there is one. */
  get link(): Link | undefined {
    return this.#link;
  }

  /** It never comes back. */
  get isRevoked(): boolean {
    return this.#presence.state === "revoked";
  }

  /** A link was accepted; the one before must be ended already. */
  linked(link: Link): void {
    this.#link = link;
    if (this.drain) link.draining = "drained";
    this.#change(this.drain ? "draining" : "online", this.drain ? "drained" : "linked", {
      generation: link.generation,
      lastSeenMs: link.lastSeenMs,
      address: link.connection.peer.address,
      hello: link.hello,
    });
    for (const { next } of this.#waiting.splice(0)) next.resolve(link);
  }

  /** It came and was refused for a reason that its administrator should see. */
  refused(reason: string): void {
    if (this.#presence.state === "offline") this.#change("offline", reason);
  }

  /** Two processes came with its identity. */
  cloned(clone: Omit<CloneReport, "count">): CloneReport {
    const report = { ...clone, count: (this.#presence.clone?.count ?? 0) + 1 };
    this.#presence = { ...this.#presence, clone: report };
    this.#options.onChange(this.presence);
    return report;
  }

  /** It said how its identity does. */
  reported(report: ReportedIdentity): void {
    this.#presence = { ...this.#presence, report };
    this.#options.onChange(this.presence);
  }

  /** The linked node takes no new calls. */
  drains(reason: string): void {
    if (this.#presence.state === "online") this.#change("draining", reason);
  }

  /** The linked node takes calls again. */
  serves(): void {
    if (this.#presence.state === "draining") this.#change("online", "linked");
  }

  /** The link is over; another one of the same node may have taken its place already, which this does not touch. */
  unlinked(link: Link, next: { readonly state: PresenceState; readonly reason: string }): void {
    if (this.#link !== link) return;
    this.#link = undefined;
    this.#change(next.state, next.reason, { lastSeenMs: link.lastSeenMs });
  }

  /** Nothing was heard for too long, or the node said goodbye. */
  offline(reason: string): void {
    if (this.#presence.state === "offline" || this.#presence.state === "revoked") return;
    this.#change("offline", reason);
  }

  /** Its link was ended by its revocation. */
  revokedAfter(link: Link): void {
    if (this.#link !== link) return;
    this.#link = undefined;
    this.revoked();
  }

  /** It was revoked: for good. */
  revoked(): void {
    this.#change("revoked", "revoked");
  }

  #change(state: PresenceState, reason: string, more: Partial<Presence> = {}): void {
    this.#presence = { ...this.#presence, ...more, state, reason, sinceMs: this.#options.clock.now() };
    if (state === "offline" || state === "revoked") {
      this.digests.clear();
      this.#options.withdraw(state === "revoked" ? "revoked" : "node_offline");
      this.#letGo(state === "revoked");
    }
    this.#options.onChange(this.presence);
  }

  #letGo(forGood: boolean): void {
    const waiting = this.#waiting;
    this.#waiting = waiting.filter(({ bearsOffline }) => bearsOffline && !forGood);
    for (const { next, bearsOffline } of waiting) {
      if (!bearsOffline || forGood) next.reject(this.offlineFault());
    }
  }

  /**
   * The next live link, or the present one. Rejects when the node goes offline meanwhile, unless that is borne; then only
   * its revocation or the signal ends the wait.
   */
  async nextLink(options: { readonly bearsOffline: boolean; readonly signal: AbortSignal }): Promise<Link> {
    if (this.#link) return this.#link;
    const { state } = this.#presence;
    if (state === "revoked" || (state !== "reconnecting" && !options.bearsOffline)) throw this.offlineFault();
    const waiting: Waiting = { next: Promise.withResolvers<Link>(), bearsOffline: options.bearsOffline };
    this.#waiting.push(waiting);
    try {
      return await raceSignal(waiting.next.promise, options.signal);
    } finally {
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
    }
  }

  /** What a call gets while there is no live link. */
  offlineFault(): Fault {
    const { nodeId, state, reason, sinceMs } = this.#presence;
    return new Fault("NODE_OFFLINE", `the node is ${state} (${reason.replaceAll("_", " ")})`, {
      hint: "fairlead nodes ls",
      details: { node: nodeId, state, reason, since: new Date(sinceMs).toISOString() },
    });
  }
}

interface Waiting {
  readonly next: PromiseWithResolvers<Link>;
  readonly bearsOffline: boolean;
}

/** The presence of a node that this gateway process has not seen. */
export function neverLinked(nodeId: string, sinceMs: number): Presence {
  return {
    nodeId,
    state: "offline",
    sinceMs,
    reason: "never_linked",
    generation: 0,
    lastSeenMs: 0,
    address: "",
    hello: undefined,
  };
}
