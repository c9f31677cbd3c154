import { Fault } from "../../shared/fault/fault.ts";
import { createBroadcast } from "../../shared/flow/broadcast.ts";
import { Files, type Export } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { PublicationKind } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { Lease } from "../../shared/lifetime/lease.ts";
import { parseWorkspaceName } from "../../shared/names/alias.ts";
import { foldsNothing, type NameFolding } from "../../shared/names/folded-name.ts";
import type { Client } from "../../shared/rpc/service.ts";
import type { Links, LiveLink, PublicationReader } from "../link/links.ts";
import { parseDeclarations, type WorkspaceDeclaration } from "./declarations.ts";
import { createLeasedClient } from "./leased-client.ts";
import { isUnavailableReason, workspaceUnavailable, type UnavailableReason } from "./unavailable.ts";

/** Which workspace: by node and export, or by a declared name. */
export type WorkspaceRef =
  | { readonly nodeId: string; readonly workspace: string; readonly shown?: string }
  | { readonly name: string };

/** What a node offers under one name. */
export interface WorkspaceOffer {
  readonly nodeId: string;
  /** The export's name on the node. */
  readonly workspace: string;
  readonly writable: boolean;
  /** `kernel` or `best_effort`. */
  readonly containment: string;
  /** The node's own number of this export; another number is another registration. */
  readonly leaseEpoch: bigint;
  /** What its volume does not tell apart in names; nothing by default. */
  readonly folding?: NameFolding;
  /** Whether trees may come packed; not by default. */
  readonly acceptsPacked?: boolean;
}

/** An active registration; releasing it twice is harmless, also after another took its place. */
export interface Registration extends Disposable {
  /** Ends every handle with `reason`, `stopped` by default; `replaced` says `stopped` in words that name the new one. */
  release(reason?: UnavailableReason | "replaced"): void;
}

/** Access to one workspace for as long as its registration lasts. */
export interface WorkspaceHandle {
  readonly nodeId: string;
  readonly workspace: string;
  /** Rises with each registration of the workspace. */
  readonly epoch: number;
  /** The node's own number of the registration. */
  readonly leaseEpoch: bigint;
  readonly writable: boolean;
  readonly containment: string;
  /** Aborts with `WORKSPACE_ACCESS_UNAVAILABLE` when the registration ends. */
  readonly signal: AbortSignal;
  /** Fails once the registration has ended. */
  check(): void;
  /** The node's files, this workspace filled in; every call is checked before and after each wait. */
  readonly files: Client<typeof Files>;
}

/** Where a workspace stands, as every list shows it. */
export interface WorkspaceState {
  readonly nodeId: string;
  readonly workspace: string;
  /** `available`, or `unavailable` for the reason beside it. */
  readonly state: "available" | "unavailable";
  readonly reason: UnavailableReason | undefined;
  /** Since when, in milliseconds since 1970. */
  readonly sinceMs: number;
  readonly writable: boolean;
  readonly containment: string;
  /** What its volume does not tell apart in names, as far as its node has said. */
  readonly folding: NameFolding;
  readonly acceptsPacked: boolean;
  /** Rises with each registration; 0 before the first. */
  readonly epoch: number;
}

/** What the registry stands on. */
export interface WorkspaceRegistryOptions {
  readonly links: Pick<Links, "find" | "get" | "presence">;
  readonly clock: Clock;
}

/** Which workspaces there are and who may act on them. Never answers for the gateway's own disk. */
export interface WorkspaceRegistry {
  /** Feeds the registry with what the nodes export. */
  readonly reader: PublicationReader;
  /**
   * Makes names known before their nodes offer them. All or none: a name with another node or root than before is
   * `INVALID_ARGUMENT` that names the second.
   */
  declare(declarations: readonly WorkspaceDeclaration[]): void;
  /** What was offered before this process began is known from the start, and away until its node offers it again. */
  remember(offered: readonly { readonly nodeId: string; readonly workspace: string }[]): void;
  /** Makes a workspace usable; `ALREADY_EXISTS` while another registration of it is active. */
  register(offer: WorkspaceOffer, client?: () => Client<typeof Files>): Registration;
  /** A handle, or `WORKSPACE_ACCESS_UNAVAILABLE` with its reason, or `NOT_FOUND` for one that nobody knows. */
  acquire(ref: WorkspaceRef): WorkspaceHandle;
  /** Whether a workspace lies on a volume that takes upper and lower case for one, as far as its node has said. */
  ignoresCase(nodeId: string, workspace: string): boolean;
  /** Every known workspace, in order of node and name. */
  list(): readonly WorkspaceState[];
  /** The present state of each workspace first, then changes; a slow reader gets the latest of each. */
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<WorkspaceState>;
}

interface Active {
  readonly lease: Lease;
  readonly files: Client<typeof Files>;
}

interface Known {
  readonly nodeId: string;
  readonly workspace: string;
  shown: string;
  active: Active | undefined;
  reason: UnavailableReason;
  sinceMs: number;
  epoch: number;
  offer: WorkspaceOffer | undefined;
}

/** A registry that knows nothing yet. */
export function createWorkspaceRegistry(options: WorkspaceRegistryOptions): WorkspaceRegistry {
  return new Registry(options);
}

class Registry implements WorkspaceRegistry {
  readonly reader: PublicationReader;
  readonly #links: WorkspaceRegistryOptions["links"];
  readonly #clock: Clock;
  readonly #known = new Map<string, Known>();
  readonly #names = new Map<string, { readonly nodeId: string; readonly workspace: string }>();
  /** Registrations made by the reader, by node. */
  readonly #read = new Map<string, Map<string, Registration>>();
  /** The keys of what has changed; one a workspace is the bound. */
  readonly #changes = createBroadcast<string>({
    limit: Number.MAX_SAFE_INTEGER,
    keyOf: (key) => key,
    onOverflow: () => "",
  });

  constructor(options: WorkspaceRegistryOptions) {
    this.#links = options.links;
    this.#clock = options.clock;
    this.reader = {
      kind: PublicationKind.WORKSPACES,
      read: (link) => this.#readExports(link),
      withdraw: (nodeId, reason) => this.#withdraw(nodeId, reason),
    };
  }

  declare(declarations: readonly WorkspaceDeclaration[]): void {
    for (const { name, nodeId, workspace } of parseDeclarations(declarations, this.#names)) {
      this.#names.set(name, { nodeId, workspace });
      const known = this.#know(nodeId, workspace);
      known.shown = name;
    }
  }

  remember(offered: readonly { readonly nodeId: string; readonly workspace: string }[]): void {
    for (const { nodeId, workspace } of offered) this.#know(nodeId, workspace).reason = "node_offline";
  }

  register(offer: WorkspaceOffer, client?: () => Client<typeof Files>): Registration {
    const known = this.#know(offer.nodeId, parseWorkspaceName(offer.workspace));
    if (known.active) {
      throw new Fault("ALREADY_EXISTS", `the workspace ${known.shown} is registered already`, {
        hint: "release the first registration before making another",
      });
    }
    known.epoch += 1;
    const lease = new Lease({
      what: `workspace ${known.shown}`,
      epoch: known.epoch,
      ended: (reason) => {
        const { shown } = known;
        if (isUnavailableReason(reason)) return workspaceUnavailable(reason, { shown });
        return workspaceUnavailable("stopped", { shown, isReplaced: reason === "replaced" });
      },
    });
    const files = createLeasedClient({
      lease,
      place: { workspace: offer.workspace, leaseEpoch: offer.leaseEpoch },
      client: client ?? (() => this.#links.get(offer.nodeId).client(Files)),
      clock: this.#clock,
      offline: (cause) => workspaceUnavailable("node_offline", { shown: known.shown, cause }),
    });
    const active: Active = { lease, files };
    known.active = active;
    known.offer = offer;
    this.#changed(known);
    const release = (reason: UnavailableReason | "replaced" = "stopped"): void => {
      if (known.active !== active) return;
      known.active = undefined;
      known.reason = reason === "replaced" ? "stopped" : reason;
      this.#changed(known);
      lease.end(reason);
    };
    return { release, [Symbol.dispose]: () => release() };
  }

  acquire(ref: WorkspaceRef): WorkspaceHandle {
    const { nodeId, workspace } = this.#locate(ref);
    const known = this.#known.get(keyOf(nodeId, workspace));
    const shown = ("shown" in ref ? ref.shown : undefined) ?? known?.shown ?? `${nodeId}:/${workspace}`;
    if (!known) throw this.#unknown(nodeId, workspace, shown);
    known.shown = shown;
    const reason = this.#reasonOf(known);
    const { active, offer } = known;
    if (reason !== undefined || !active || !offer) {
      throw workspaceUnavailable(reason ?? known.reason, { shown });
    }
    return {
      nodeId,
      workspace,
      epoch: active.lease.epoch,
      leaseEpoch: offer.leaseEpoch,
      writable: offer.writable,
      containment: offer.containment,
      signal: active.lease.signal,
      check: () => active.lease.check(),
      files: active.files,
    };
  }

  ignoresCase(nodeId: string, workspace: string): boolean {
    return this.#known.get(keyOf(nodeId, workspace))?.offer?.folding?.case === true;
  }

  list(): readonly WorkspaceState[] {
    const order = [...this.#known.entries()].toSorted(([a], [b]) => (a < b ? -1 : 1));
    return order.map(([, known]) => this.#stateOf(known));
  }

  async *changes(options: { readonly signal: AbortSignal }): AsyncIterable<WorkspaceState> {
    for await (const key of this.#changes.watch({ ...options, first: () => this.#known.keys() })) {
      const known = this.#known.get(key);
      if (known) yield this.#stateOf(known);
    }
  }

  #locate(ref: WorkspaceRef): { readonly nodeId: string; readonly workspace: string } {
    if (!("name" in ref)) return ref;
    const found = this.#names.get(ref.name);
    if (found) return found;
    throw new Fault(
      "NOT_FOUND",
      `no workspace is declared under the name ${JSON.stringify(ref.name.slice(0, 64))}`,
      {
        hint: "look at fairlead workspaces ls",
      },
    );
  }

  /** An unknown export of a node that is away is not missing: nobody can say until the node is back. */
  #unknown(nodeId: string, workspace: string, shown: string): Fault {
    const reason = this.#nodeReason(nodeId);
    if (reason !== undefined) return workspaceUnavailable(reason, { shown });
    if (!this.#read.has(nodeId)) return workspaceUnavailable("not_started", { shown });
    return new Fault("NOT_FOUND", `the node exports no workspace ${workspace} (${shown})`, {
      hint: `look at fairlead workspaces ls, or export it on the node: fairlead node workspace add ${workspace} DIR`,
      details: { workspace: shown },
    });
  }

  #nodeReason(nodeId: string): UnavailableReason | undefined {
    const { state } = this.#links.presence(nodeId);
    if (state === "revoked" || state === "draining") return state;
    return state === "online" ? undefined : "node_offline";
  }

  /** Why it cannot be used now, if it cannot. One that was never offered stays `not_started` while its node is away. */
  #reasonOf(known: Known): UnavailableReason | undefined {
    const ofNode = this.#nodeReason(known.nodeId);
    if (ofNode === "revoked" || !known.active) {
      return ofNode === "revoked" ? ofNode : known.reason;
    }
    return ofNode;
  }

  #stateOf(known: Known): WorkspaceState {
    const reason = this.#reasonOf(known);
    return {
      nodeId: known.nodeId,
      workspace: known.workspace,
      state: reason === undefined ? "available" : "unavailable",
      reason,
      sinceMs: known.sinceMs,
      writable: known.offer?.writable ?? false,
      containment: known.offer?.containment ?? "",
      folding: known.offer?.folding ?? foldsNothing,
      acceptsPacked: known.offer?.acceptsPacked ?? false,
      epoch: known.epoch,
    };
  }

  #know(nodeId: string, workspace: string): Known {
    const key = keyOf(nodeId, workspace);
    const existing = this.#known.get(key);
    if (existing) return existing;
    const known: Known = {
      nodeId,
      workspace,
      shown: `${nodeId}:/${workspace}`,
      active: undefined,
      reason: "not_started",
      sinceMs: this.#clock.now(),
      epoch: 0,
      offer: undefined,
    };
    this.#known.set(key, known);
    return known;
  }

  #changed(known: Known): void {
    known.sinceMs = this.#clock.now();
    this.#changes.tell(keyOf(known.nodeId, known.workspace));
  }

  async #readExports(link: LiveLink): Promise<void> {
    const { exports } = await link.client(Files).listExports({}, { signal: link.signal });
    link.signal.throwIfAborted();
    const held = this.#read.get(link.nodeId) ?? new Map<string, Registration>();
    this.#read.set(link.nodeId, held);
    const offered = new Map(exports.map((one) => [one.workspace, one]));
    for (const [workspace, registration] of held) {
      const now = offered.get(workspace);
      const before = this.#known.get(keyOf(link.nodeId, workspace))?.offer;
      if (now?.state === "available" && before && isSameOffer(before, now)) continue;
      registration.release(endOf(now));
      held.delete(workspace);
    }
    for (const [workspace, one] of offered) {
      // What its node names and cannot open yet is known, and has not started.
      if (one.state !== "available") this.#know(link.nodeId, workspace);
      if (one.state !== "available" || held.has(workspace)) continue;
      held.set(workspace, this.register({ ...toOffer(one), nodeId: link.nodeId }));
    }
    this.#settle(link.nodeId, offered);
  }

  /** The node is back: what it does not offer any more has stopped, and is not merely away. */
  #settle(nodeId: string, offered: ReadonlyMap<string, Export>): void {
    for (const known of this.#known.values()) {
      if (known.nodeId !== nodeId || known.active || known.reason === "not_started") continue;
      const state = offered.get(known.workspace)?.state ?? "stopped";
      const reason = isUnavailableReason(state) ? state : "stopped";
      if (known.reason === reason) continue;
      known.reason = reason;
      this.#changed(known);
    }
  }

  #withdraw(nodeId: string, reason: "node_offline" | "revoked"): void {
    const held = this.#read.get(nodeId);
    this.#read.delete(nodeId);
    for (const registration of held?.values() ?? []) registration.release(reason);
    if (reason !== "revoked") return;
    for (const known of this.#known.values()) {
      if (known.nodeId !== nodeId) continue;
      known.reason = "revoked";
      this.#changed(known);
    }
  }
}

function keyOf(nodeId: string, workspace: string): string {
  return `${nodeId}/${workspace}`;
}

/** Why a registration ends, from what the node says of the workspace now. */
function endOf(now: Export | undefined): UnavailableReason | "replaced" {
  if (now?.state === "available") return "replaced";
  return now && isUnavailableReason(now.state) ? now.state : "stopped";
}

function toOffer(one: Export): Omit<WorkspaceOffer, "nodeId"> {
  return {
    workspace: one.workspace,
    writable: one.writable,
    containment: one.containment,
    leaseEpoch: one.leaseEpoch,
    folding: { case: one.ignoresCase, form: one.ignoresForm },
    acceptsPacked: one.acceptsPacked,
  };
}

function isSameOffer(before: WorkspaceOffer, now: Export): boolean {
  return (
    before.leaseEpoch === now.leaseEpoch &&
    before.writable === now.writable &&
    before.containment === now.containment
  );
}
