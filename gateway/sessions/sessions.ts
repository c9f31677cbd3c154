import { randomBytes } from "node:crypto";
import { Fault } from "../../shared/fault/fault.ts";
import { createBroadcast } from "../../shared/flow/broadcast.ts";
import { createCoalescingQueue } from "../../shared/flow/queue.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { Lease } from "../../shared/lifetime/lease.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import { parseRemotePath } from "../../shared/names/remote-path.ts";
import type { WorkspaceRegistry } from "../files/registry.ts";
import { workspaceUnavailable } from "../files/unavailable.ts";
import type { Links } from "../link/links.ts";
import type { NodeRecord, Nodes } from "../pairing/nodes.ts";
import type { Policy } from "../policy/policy.ts";
import { pickByPrefix, prefixCandidates } from "../store/pick-by-prefix.ts";
import type { Store } from "../store/store.ts";
import type { SessionsTable } from "../store/tables.ts";
import { operatorAgent, type Caller } from "../tools/caller.ts";

/** Where a session stands. */
export type SessionState = "active" | "waiting_for_node" | "closed";

/** A session as lists show it. */
export interface SessionRecord {
  readonly id: string;
  readonly agent: string;
  readonly nodeId: string;
  /** The export's name. */
  readonly workspace: string;
  /** `NODE:/NAME`. */
  readonly address: string;
  readonly state: SessionState;
  /** A `snake_case` word; empty when there is nothing to say. */
  readonly reason: string;
  /** Since when it is in that state, in milliseconds since 1970. */
  readonly sinceMs: number;
  readonly openedMs: number;
}

/** What sessions stand on. */
export interface SessionsOptions {
  readonly store: Pick<Store, "db">;
  readonly nodes: Pick<Nodes, "find" | "resolve">;
  readonly links: Pick<Links, "presence" | "changes">;
  readonly workspaces: Pick<WorkspaceRegistry, "acquire" | "list" | "changes">;
  readonly policy: Pick<Policy, "decideFile">;
  /** Names of the agents that are configured; empty: any well-formed name will do. */
  readonly agents?: readonly string[];
  readonly clock: Clock;
}

/** Hosted sessions. Their rows outlive the gateway's process; leases are made anew with it. */
export interface Sessions {
  /**
   * Opens a session on `NODE:/NAME`. Fails with `NOT_FOUND`, `POLICY_DENIED`, or `WORKSPACE_ACCESS_UNAVAILABLE` while
   * the node is away; nothing is left behind then.
   */
  open(request: { readonly agent: string; readonly workspace: string }): Promise<SessionRecord>;
  /** Open ones, or all, newest first. */
  list(options?: { readonly all?: boolean }): Promise<readonly SessionRecord[]>;
  /** Also a closed one, by its id or a prefix that fits one only. */
  get(id: string): Promise<SessionRecord>;
  /** Ends it: its lease first, so that running calls end with `CANCELLED`. Closing twice is harmless. */
  close(id: string): Promise<SessionRecord>;
  /** Who calls in an open session; `NOT_FOUND` for a closed one. */
  caller(id: string): Promise<Caller>;
  /** The newest open session of an agent; `NOT_FOUND` when there is none. */
  latestOf(agent: string): Promise<SessionRecord>;
  /** A session as it is, and again after each change of its state or reason; `closed` is the last. */
  states(id: string, options: { readonly signal: AbortSignal }): AsyncIterable<SessionRecord>;
}

interface Watch {
  readonly signal: AbortSignal;
}

const agentShape = /^[a-z][a-z0-9-]{0,31}$/;

/** The sessions of a store. */
export function createSessions(options: SessionsOptions): Sessions {
  return new StoredSessions(options);
}

class StoredSessions implements Sessions {
  readonly #options: SessionsOptions;
  readonly #leases = new Map<string, Lease>();
  readonly #changes = createBroadcast<string>({ limit: 1_000, keyOf: (id) => id, onOverflow: () => "" });
  #epoch = 0;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  async open(request: { readonly agent: string; readonly workspace: string }): Promise<SessionRecord> {
    const agent = request.agent === "" ? operatorAgent : request.agent;
    this.#requireAgent(agent);
    const { node: reference, workspace, path } = parseRemotePath(request.workspace, { field: "workspace" });
    if (path !== "") {
      throw new Fault(
        "INVALID_ARGUMENT",
        "a session is bound to a whole workspace: NODE:/NAME, without a path",
        {
          details: { field: "workspace" },
        },
      );
    }
    const node = await this.#options.nodes.resolve(reference);
    this.#requireUsable(agent, node, workspace);
    const now = this.#options.clock.now();
    const row: SessionsTable = {
      id: randomBytes(10).toString("hex"),
      agent,
      node_id: node.id,
      workspace,
      state: "open",
      reason: "",
      since: now,
      opened_at: now,
      closed_at: null,
      snapshot: null,
      surface: null,
    };
    await this.#options.store.db.insertInto("sessions").values(row).execute();
    this.#changes.tell(row.id);
    return await this.#toRecord(row);
  }

  async list(options: { readonly all?: boolean } = {}): Promise<readonly SessionRecord[]> {
    let query = this.#options.store.db
      .selectFrom("sessions")
      .selectAll()
      .orderBy("opened_at", "desc")
      .orderBy("id")
      .limit(10_000);
    if (options.all !== true) query = query.where("state", "=", "open");
    return await Promise.all((await query.execute()).map((row) => this.#toRecord(row)));
  }

  async get(id: string): Promise<SessionRecord> {
    return await this.#toRecord(await this.#find(id));
  }

  async close(id: string): Promise<SessionRecord> {
    const row = await this.#find(id);
    // Authority ends first, whatever becomes of the rest.
    this.#leases.get(row.id)?.end("session_closed");
    this.#leases.delete(row.id);
    const now = this.#options.clock.now();
    await this.#options.store.db
      .updateTable("sessions")
      .set({ state: "closed", reason: "closed_by_request", since: now, closed_at: now })
      .where("id", "=", row.id)
      .where("state", "=", "open")
      .execute();
    // A call that looked the session up meanwhile may have made a lease again.
    this.#leases.get(row.id)?.end("session_closed");
    this.#leases.delete(row.id);
    this.#changes.tell(row.id);
    return await this.get(row.id);
  }

  async caller(id: string): Promise<Caller> {
    const row = await this.#find(id);
    if (row.state !== "open" || row.node_id === null || row.workspace === null) throw unknown(id);
    const lease = this.#leases.get(row.id) ?? this.#grant(row.id);
    return {
      agent: row.agent,
      session: { id: row.id, nodeId: row.node_id, workspace: row.workspace, lease },
    };
  }

  async latestOf(agent: string): Promise<SessionRecord> {
    const row = await this.#options.store.db
      .selectFrom("sessions")
      .selectAll()
      .where("agent", "=", agent)
      .where("state", "=", "open")
      .orderBy("opened_at", "desc")
      .executeTakeFirst();
    if (row) return await this.#toRecord(row);
    throw new Fault("NOT_FOUND", `the agent ${agent} has no open session`, {
      hint: `fairlead sessions open --agent ${agent} --workspace NODE:/NAME`,
    });
  }

  async *states(id: string, options: { readonly signal: AbortSignal }): AsyncGenerator<SessionRecord> {
    await using scope = new Scope("the states of a session", options.signal);
    const looks = createCoalescingQueue({ limit: 1, keyOf: () => "look", onOverflow: () => "look" });
    const onAbort = (): void => looks.close();
    scope.signal.addEventListener("abort", onAbort, { once: true });
    const follow = (what: string, source: (watch: Watch) => AsyncIterable<unknown>): void =>
      scope.spawn(what, async (signal) => {
        for await (const _change of source({ signal })) await looks.push("look");
      });
    follow("nodes", (watch) => this.#options.links.changes(watch));
    follow("workspaces", (watch) => this.#options.workspaces.changes(watch));
    follow("sessions", (watch) => this.#changes.watch(watch));
    await looks.push("look");
    let last = "";
    for await (const _look of looks) {
      const record = await this.get(id);
      const now = `${record.state} ${record.reason}`;
      if (now !== last) yield record;
      if (record.state === "closed") return;
      last = now;
    }
  }

  #grant(id: string): Lease {
    this.#epoch += 1;
    const lease = new Lease({
      what: `session ${id}`,
      epoch: this.#epoch,
      ended: (reason) => new Fault("CANCELLED", `the session ${id} was closed`, { details: { reason } }),
    });
    this.#leases.set(id, lease);
    return lease;
  }

  #requireAgent(agent: string): void {
    if (!agentShape.test(agent)) {
      throw new Fault(
        "INVALID_ARGUMENT",
        "an agent's name is 1 to 32 of a to z, 0 to 9 and hyphens, a letter first",
        {
          details: { field: "agent" },
        },
      );
    }
    const known = this.#options.agents ?? [];
    if (known.length === 0 || agent === operatorAgent || known.includes(agent)) return;
    throw new Fault("NOT_FOUND", `there is no agent ${agent}`, {
      hint: `use ${known.slice(0, 5).join(", ")}, or add it under agents in the gateway's configuration`,
      details: { field: "agent" },
    });
  }

  #requireUsable(agent: string, node: NodeRecord, workspace: string): void {
    const shown = `${node.alias}:/${workspace}`;
    const { state, sinceMs } = this.#options.links.presence(node.id);
    if (state !== "online") {
      const fault = workspaceUnavailable(state === "revoked" ? "revoked" : "node_offline", { shown });
      throw fault.with({ details: { since: new Date(sinceMs).toISOString(), state } });
    }
    this.#options.workspaces.acquire({ nodeId: node.id, workspace, shown });
    const verdict = this.#options.policy.decideFile({ agent, node, verb: "list" });
    if (verdict.decision === "allow") return;
    throw new Fault("POLICY_DENIED", `${agent} may not use ${shown}: ${verdict.reason}`, {
      ...(verdict.hint === undefined ? {} : { hint: verdict.hint }),
      details: { rule: verdict.rule, side: verdict.side },
    });
  }

  async #toRecord(row: SessionsTable): Promise<SessionRecord> {
    const nodeId = row.node_id ?? "";
    const workspace = row.workspace ?? "";
    const node = await this.#options.nodes.find(nodeId);
    return {
      id: row.id,
      agent: row.agent,
      nodeId,
      workspace,
      address: `${node?.alias ?? nodeId}:/${workspace}`,
      openedMs: row.opened_at,
      ...this.#standing(row),
    };
  }

  #standing(row: SessionsTable): Pick<SessionRecord, "state" | "reason" | "sinceMs"> {
    if (row.state !== "open") return { state: "closed", reason: row.reason, sinceMs: row.since };
    const presence = this.#options.links.presence(row.node_id ?? "");
    if (presence.state !== "online") {
      return {
        state: "waiting_for_node",
        reason: presence.reason,
        sinceMs: Math.max(presence.sinceMs, row.opened_at),
      };
    }
    const known = this.#options.workspaces
      .list()
      .find((one) => one.nodeId === row.node_id && one.workspace === row.workspace);
    if (known?.state === "available") {
      return { state: "active", reason: "", sinceMs: Math.max(known.sinceMs, row.opened_at) };
    }
    const sinceMs = known?.sinceMs ?? presence.sinceMs;
    return { state: "waiting_for_node", reason: known?.reason ?? "not_started", sinceMs };
  }

  async #find(id: string): Promise<SessionsTable> {
    const rows = /^[0-9a-f]{1,20}$/.test(id)
      ? await this.#options.store.db
          .selectFrom("sessions")
          .selectAll()
          .where("id", "like", `${id}%`)
          .limit(prefixCandidates)
          .execute()
      : [];
    if (rows.length === 0) throw unknown(id);
    return pickByPrefix(rows, { id, what: "session", field: "session", listedBy: "fairlead sessions ls" });
  }
}

function unknown(id: string): Fault {
  return new Fault("NOT_FOUND", `there is no open session ${id.slice(0, 64)}`, {
    hint: "fairlead sessions ls",
  });
}
