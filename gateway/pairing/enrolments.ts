import type { NodeProfile, NodeRecord } from "./nodes.ts";
import type { RefusedJoin } from "./refused-joins.ts";

/** A machine that asks to be admitted. Everything but the address and times is what its approval covers. */
export interface EnrolmentRequest {
  /** A request that says anything else, or has another key, has another id. */
  readonly id: string;
  /** The alias that the machine would like, as it says; not always one. */
  readonly wishedName: string;
  readonly hostName: string;
  readonly platform: string;
  readonly agentVersion: string;
  /** `sha256:` digest of its public key. */
  readonly key: string;
  /** Where it last asked from. */
  readonly address: string;
  /** Names of the workspaces that it means to export, as it says. */
  readonly workspaces: readonly string[];
  /** Of its code, as are profile, alias and note. */
  readonly labels: Readonly<Record<string, string>>;
  readonly profile: NodeProfile;
  /** Empty: the code names none. */
  readonly alias: string;
  readonly note: string;
  /** What the machine shows too. */
  readonly comparisonCode: string;
  /** In milliseconds since 1970, as are the other times. */
  readonly askedAt: number;
  /** When it last asked, to the minute. */
  readonly seenAt: number;
  readonly expiresAt: number;
  /** Whether the machine is on the line. */
  readonly connected: boolean;
}

/** What an administrator says about the node beside the code. */
export interface ApprovedAs {
  /** Empty: that of the code, the machine's wish, or one that is made. */
  readonly alias?: string;
  /** Added to those of the code; equal names win over it. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Instead of the code's. */
  readonly profile?: string;
  /** Who decides, for the record; the gateway's own user when it is not said. */
  readonly by?: Decider;
}

/** Who decides, and from where. */
export interface Decider {
  readonly actor: string;
  readonly address: string;
}

/** The machines that wait to be admitted, and the decisions about them. They are in the store, and outlive the gateway. */
export interface Enrolments {
  /** Those that wait, oldest first. */
  list(): Promise<readonly EnrolmentRequest[]>;
  /** Joins that were refused since the gateway started, newest first. */
  refused(): readonly RefusedJoin[];
  /**
   * Admits a machine, named by the request's id or a prefix of at least 6 characters; again is as good. `NOT_FOUND` also
   * for one that expired, `CONFLICT` with `details.requestId` and `details.changed` when another request took its place,
   * `ALREADY_EXISTS` for an alias in use; nobody is admitted then.
   */
  approve(
    id: string,
    as: ApprovedAs,
  ): Promise<{
    readonly request: EnrolmentRequest;
    readonly node: NodeRecord;
    readonly already: boolean;
  }>;
  /** Turns a machine away; again is as good. `CONFLICT` when it was admitted or another request took its place. */
  reject(
    id: string,
    as?: Pick<ApprovedAs, "by">,
  ): Promise<{ readonly request: EnrolmentRequest; readonly already: boolean }>;
}

/** Bounds of what waits. */
export interface EnrolmentLimits {
  /** Most requests that wait; beyond it the oldest of the address that holds most gives way. */
  readonly pendingRequests: number;
  /** Most that wait from one address; beyond it its oldest gives way. */
  readonly pendingRequestsPerAddress: number;
  /** How long a request waits, in milliseconds. */
  readonly pendingRequestMs: number;
}

/** The bounds when nothing else is said. */
export const enrolmentLimits: EnrolmentLimits = {
  pendingRequests: 1_000,
  pendingRequestsPerAddress: 20,
  pendingRequestMs: 86_400_000,
};
