import type { DescService } from "@bufbuild/protobuf";
import type { Fault } from "../../shared/fault/fault.ts";
import type { Hello, PublicationKind } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Client } from "../../shared/rpc/service.ts";
import type { LostCall, Standing } from "./ask-ledger.ts";
import type { TimedOutCalls } from "./node-tally.ts";

/** Where a node stands, as every list shows it. */
export type PresenceState = "online" | "reconnecting" | "draining" | "offline" | "revoked";

/** A node's presence: state, since when, and why. */
export interface Presence {
  readonly nodeId: string;
  readonly state: PresenceState;
  /** Since when, in milliseconds since 1970. */
  readonly sinceMs: number;
  /** A `snake_case` word: `linked`, `link_lost`, `goodbye`, `never_linked`, `revoked`, `heartbeat_missed`, … */
  readonly reason: string;
  /** Generation of the present or last link; 0 before the first. */
  readonly generation: number;
  /** When it was last heard of, in milliseconds since 1970; 0: never. */
  readonly lastSeenMs: number;
  /** Where it connects from; empty before the first link. */
  readonly address: string;
  /** The hello of the present or last link of this gateway process. */
  readonly hello: Hello | undefined;
  /** What it said of its identity last; not before its first report to this gateway process. */
  readonly report?: ReportedIdentity;
  /** The last time that two processes came with its identity. */
  readonly clone?: CloneReport;
}

/** One of two processes with one identity. */
export interface LinkedMachine {
  /** Names the process. */
  readonly bootId: string;
  /** Where it connects from. */
  readonly address: string;
  /** When it was seen, in milliseconds since 1970. */
  readonly atMs: number;
}

/** Two processes that came with one identity. */
export interface CloneReport {
  /** `refused`: both were there at once, and the other was turned away; `suspected`: the other has an older state. */
  readonly kind: "refused" | "suspected";
  /** The one whose link goes on. */
  readonly kept: LinkedMachine;
  readonly other: LinkedMachine;
  /** How often it happened since the first time. */
  readonly count: number;
}

/** What a node says of its identity. */
export interface ReportedIdentity {
  /** Pins of the authorities that it trusts. */
  readonly trustedPins: readonly string[];
  /** While its certificate cannot be renewed. */
  readonly renewal?: ReportedRenewal;
  /** The serial of a statement of trust that it ignored, because nobody whom it trusts has signed it; 0: none. */
  readonly ignoredTrustSerial: number;
}

/** A renewal that fails and is tried again. */
export interface ReportedRenewal {
  /** Since when, in milliseconds since 1970. */
  readonly sinceMs: number;
  /** A fault's code. */
  readonly code: string;
  readonly message: string;
  /** When the certificate ends that the node has, in milliseconds since 1970. */
  readonly expiresMs: number;
}

/** A node that an administrator has taken out of service. Times are milliseconds since 1970. */
export interface NodeDrain {
  readonly sinceMs: number;
  /** When what still runs on it is cancelled. */
  readonly deadlineMs: number;
  /** When it is back in service by itself; undefined: when an administrator says so. */
  readonly untilMs: number | undefined;
  /** For people. */
  readonly note: string;
}

/** What this gateway process knows of a node's link, for people. */
export interface NodeFacts {
  /** The protocol version of the present or last link; 0: none. */
  readonly protocol: number;
  /** The side that is one version behind. */
  readonly upgrade: "node" | "gateway" | undefined;
  /** The version that is installed on the machine when another one runs; else empty. */
  readonly installedVersion: string;
  /** Messages that belonged to nothing. */
  readonly droppedCount: number;
  /** Calls that ran out of time, the most frequent method first. */
  readonly timedOut: readonly TimedOutCalls[];
  readonly drain: NodeDrain | undefined;
}

/** A live link: how the gateway calls one node. */
export interface LiveLink {
  readonly nodeId: string;
  /** Rises with each accepted link of the node. */
  readonly generation: number;
  readonly hello: Hello;
  /** Aborts when the link ends. */
  readonly signal: AbortSignal;
  /** A typed client of a service of the node; its calls end with the link as the class of the method says. */
  client<S extends DescService>(service: S): Client<S>;
}

/** What a feature does with what a node publishes. One reader a kind. */
export interface PublicationReader {
  readonly kind: PublicationKind;
  /**
   * Reads the publication whose digest differs from the last one read, and puts it in the feature's catalogue. Never
   * overlaps with itself for one node; a link that ends meanwhile aborts it.
   */
  read(link: LiveLink, publication: { readonly epoch: bigint; readonly digest: string }): Promise<void>;
  /** Everything of this node is withdrawn, in one synchronous step. */
  withdraw(nodeId: string, reason: "node_offline" | "revoked"): void;
}

/** The end of a job that its node is to be told of. */
export interface OwedEnd {
  /** The call that started it. */
  readonly callId: string;
  readonly fault: Fault;
  /** Its own deadline has ended it by then; in milliseconds since 1970. */
  readonly untilMs: number;
}

/** The links of this gateway. */
export interface Links {
  /** The live link of a node, if there is one. */
  find(nodeId: string): LiveLink | undefined;
  /** The live link of a node; `NODE_OFFLINE` with state, since and reason in details when there is none. */
  get(nodeId: string): LiveLink;
  /** Where a node stands; a node that never linked is `offline` with reason `never_linked`. */
  presence(nodeId: string): Presence;
  /** The present state of every node first, then each change in order. A slow reader gets the latest of each node. */
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<Presence>;
  /**
   * How a call stands at its node that lost its link: asked as soon as the node is there, until the signal aborts, whose
   * reason it then rejects with.
   */
  standing(nodeId: string, call: LostCall, options: { readonly signal: AbortSignal }): Promise<Standing>;
  /** Has a job of a node ended as soon as the node can be told so; after `untilMs` (since 1970) nobody tries any more. */
  endJob(nodeId: string, job: OwedEnd): void;
  /** Ends a node's link, its calls and its streams with `fault`; resolves when nothing of it is left, or after 5 s. */
  end(nodeId: string, fault: Fault): Promise<void>;
  /** What is known of its link. */
  facts(nodeId: string): NodeFacts;
}
