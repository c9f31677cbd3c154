import type { MessageInitShape } from "@bufbuild/protobuf";
import type { TrustUpdateSchema } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { ServedService } from "../../shared/rpc/service.ts";
import type { AdmissionSettings } from "./admission.ts";
import type { HeartbeatSettings } from "./heartbeat.ts";
import type { LateResult } from "./late-outcomes.ts";
import type {
  CloneReport,
  Links,
  NodeDrain,
  Presence,
  PublicationReader,
  ReportedIdentity,
} from "./links.ts";

/** Bytes that calls may have in flight, each way. */
export interface FlightBudgets {
  /** Of one link. */
  readonly linkBytes: number;
  /** Of all links. */
  readonly gatewayBytes: number;
}

/** The budgets of the manual. */
export const defaultBudgets: FlightBudgets = {
  linkBytes: 64 * 1024 * 1024,
  gatewayBytes: 1024 * 1024 * 1024,
};

/** Who a node is, as its certificate says. */
export interface NodeIdentity {
  readonly nodeId: string;
  readonly alias: string;
  /** Until when the certificate is good, in milliseconds since 1970; for ever when it is not said. */
  readonly expiresAt?: number;
}

/** What `startLinks` takes. */
export interface LinksOptions {
  /** Whose certificate it is (DER); throws `UNAUTHENTICATED`, `IDENTITY_REVOKED` or `IDENTITY_UNKNOWN`. */
  readonly identify: (certificate: Uint8Array) => Promise<NodeIdentity>;
  /** What reads publications; more may be added later. */
  readonly readers?: readonly PublicationReader[];
  /** Where nodes stood before this process began. */
  readonly recalled?: ReadonlyMap<string, Presence>;
  /**
   * The generation of a node's next link; must rise, also over restarts. The time in milliseconds by default. `presented`
   * is the last one that the node's home knows of, 0 for none; stale when another home must have gone on from there.
   */
  readonly nextGeneration?: (
    nodeId: string,
    presented: number,
  ) => Promise<{ readonly generation: number; readonly isStale: boolean }>;
  /** Which authorities nodes are to trust; each is told when it links, and by `tellTrust`. */
  readonly trust?: () => MessageInitShape<typeof TrustUpdateSchema>;
  /** Hears what a node says of its identity. */
  readonly onReport?: (nodeId: string, report: ReportedIdentity) => void;
  /** Hears that two processes came with one identity. */
  readonly onClone?: (nodeId: string, report: CloneReport) => void;
  /** Hears of results that came after their call's deadline. */
  readonly onLate?: (result: LateResult) => void;
  readonly heartbeat?: HeartbeatSettings;
  readonly admission?: AdmissionSettings;
  readonly budgets?: FlightBudgets;
  readonly gatewayVersion?: string;
  /** The epoch under which this gateway owns its nodes; 0, none, by default. */
  readonly ownerEpoch?: bigint;
  readonly clock?: Clock;
  /** Hears what went wrong without a caller; for the log. */
  readonly onFault?: (error: unknown, about: string) => void;
}

/** The links of a gateway, with the service that nodes dial. */
export interface LinkHost extends AsyncDisposable {
  /** `NodeLink`, for the gateway's TLS port. */
  readonly service: ServedService;
  /** What nodes may ask about their own calls, for the same port. */
  readonly questions: ServedService;
  readonly links: Links;
  /** Tells every linked node which authorities to trust. */
  tellTrust(): void;
  /** A node renewed its certificate: its live link may go on for so long, in milliseconds since 1970. */
  renewed(nodeId: string, expiresAt: number): void;
  /** Adds a reader of publications; what live nodes publish is read at once. */
  addReader(reader: PublicationReader): void;
  /** Takes a node out of service, or back with `undefined`; whoever calls keeps it over restarts. */
  setDrain(nodeId: string, drain: NodeDrain | undefined): void;
  /** Tells every node that the gateway leaves; no new call is dispatched. */
  drain(options: { readonly deadlineMs: number; readonly reason: string }): void;
  /** Resolves when no call with a deadline runs any more, at the latest after `timeoutMs`. */
  settled(timeoutMs: number): Promise<void>;
}
