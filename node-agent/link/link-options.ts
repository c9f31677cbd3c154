import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Fault } from "../../shared/fault/fault.ts";
import type {
  IdentityReportSchema,
  Notice,
  PublicationRead,
  TrustUpdate,
} from "../../shared/gen/fairlead/v1/link_pb.ts";
import { type ProtocolWindow } from "../../shared/identity/protocol.ts";
import { type Clock } from "../../shared/lifetime/clock.ts";
import type { ClientTls } from "../../shared/rpc/client-credentials.ts";
import type { ServedService } from "../../shared/rpc/service.ts";
import type { RecordedJobs } from "./job-outcomes.ts";
import { type LinkStatus } from "./link-status.ts";
import type { OwnerEpoch } from "./owner-epoch.ts";

/** What the node publishes, by kind. */
export interface Publications {
  /** What it publishes now: kind, epoch and digest of each. */
  current(): readonly Notice[];
  /** Each change, until the signal aborts. */
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<Notice>;
  /** Hears that the gateway has read a publication; not from a gateway of an earlier version. */
  onRead?(read: Pick<PublicationRead, "publication" | "digest">): void;
}

/** What `startLink` takes. */
export interface LinkOptions {
  /** Gateways of this node, `host:port`, in the order of preference; at least one. */
  readonly addresses: readonly string[];
  /** Key, certificate and pin; read at every dial. */
  readonly loadTls: () => ClientTls | Promise<ClientTls>;
  /** Runs before each dial of an address and may refuse it: its fault counts as that of the dial. */
  readonly beforeDial?: (address: string, signal: AbortSignal) => Promise<void>;
  /** The generation that this home was given last; 0: none. */
  readonly lastGeneration?: number;
  /** Hears of each generation that a link was given; it is to be kept over restarts. */
  readonly onGeneration?: (generation: number) => void;
  /** Hears which authorities the gateway says are to be trusted; whether that is to be believed is the listener's affair. */
  readonly onTrust?: (update: TrustUpdate) => void;
  /** What gateways may call. `Node.GetOutcome` is served beside them. */
  readonly services: readonly ServedService[];
  readonly publications?: Publications;
  readonly agentVersion?: string;
  /** Judges under which epoch a gateway claims the node; every epoch is accepted by default. */
  readonly ownerEpoch?: OwnerEpoch;
  /** What the machine calls itself, for people; its host name by default. */
  readonly hostName?: string;
  /** Names this process; random by default. */
  readonly bootId?: string;
  /** The protocol versions that are offered. */
  readonly protocol?: ProtocolWindow;
  /** Whether short messages may come in the frames that begin and end a call, as a node says that knows it; it may by default. */
  readonly shortCalls?: boolean;
  /** Where calls that run at most once are written down; without it their record ends with the process. */
  readonly ledgerFile?: string;
  /** What the ledger asks about jobs. */
  readonly jobs?: RecordedJobs;
  readonly clock?: Clock;
  /** A number in [0, 1). */
  readonly random?: () => number;
  /** Hears why each connection ended, and each failed call; for the log. */
  readonly onFault?: (error: unknown, about: string) => void;
}

/** The node's link to its gateway: dialled again and again until it is closed or the identity is refused for good. */
export interface NodeLinkHandle extends AsyncDisposable {
  status(): LinkStatus;
  /** The present status, then each change; a slow reader gets the latest. */
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<LinkStatus>;
  /** Tells the gateway how the identity does, now and after every reconnect. */
  report(report: IdentityReport): void;
  /** Takes no new call and lets what runs finish, for at most `deadlineMs`; then what runs is cancelled. */
  drain(options: { readonly deadlineMs: number; readonly reason: string }): Promise<void>;
  /** Tells the gateway which version is installed on the machine; empty when it is the one that runs. */
  setInstalled(version: string): void;
  /** Resolves with why it is over for good; never rejects. */
  readonly closed: Promise<Fault>;
}

/** What a node says of its identity. */
export type IdentityReport = MessageInitShape<typeof IdentityReportSchema>;
