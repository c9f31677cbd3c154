import path from "node:path";
import { faultRow } from "../shared/fault/codes.ts";
import { faultFromError } from "../shared/fault/fault-from-error.ts";
import { type Fault, isFault } from "../shared/fault/fault.ts";
import { Pairing } from "../shared/gen/fairlead/v1/pairing_pb.ts";
import type { Scope } from "../shared/lifetime/scope.ts";
import { openGrpcClient } from "../shared/rpc/grpc-client.ts";
import type { ServedService } from "../shared/rpc/service.ts";
import type { AgentDeps } from "./agent.ts";
import { type NodeStatus, writeNodeStatus } from "./config/status-file.ts";
import type { LinkStatus } from "./link/link-status.ts";
import { createOwnerEpoch } from "./link/owner-epoch.ts";
import type { PublicationBoard } from "./link/publications.ts";
import { type NodeLinkHandle, startLink } from "./link/start-link.ts";
import type { NodeIdentity } from "./pairing/identity.ts";
import { startRenewal } from "./pairing/renew.ts";
import { dialTls } from "./pairing/tls.ts";

/** How long calls that run may go on once the agent stops, in milliseconds. */
const drainMs = 2_000;

/** What the agent's link stands on. */
export interface AgentLinkParts {
  readonly identity: NodeIdentity;
  /** The node's folder. */
  readonly dir: string;
  readonly services: readonly ServedService[];
  readonly board: PublicationBoard;
  readonly deps: Omit<AgentDeps, "readSettings" | "environment">;
}

/** The agent's link, with what follows it: renewal of the certificate, and the status file. */
export interface AgentLink {
  /** Resolves when the link is up for the first time; rejects with the fault that ended it before. */
  readonly ready: Promise<void>;
  /** Resolves with the fault that ended it for good. */
  readonly closed: Promise<Fault>;
  /** Shows in the status file why the configuration is not followed. */
  readonly setConfigProblem: (message: string) => void;
}

/** Starts dialling; `scope` ends it, with a goodbye first. */
export async function startAgentLink(scope: Scope, parts: AgentLinkParts): Promise<AgentLink> {
  const { deps, dir, services, board } = parts;
  let identity = parts.identity;
  let last: Fault | undefined;
  let final: Fault | undefined;
  let stopping = false;
  const status = new StatusWriter(dir, deps.version);
  const link = startLink({
    addresses: identity.addresses,
    loadTls: () => dialTls(identity, deps.clock),
    services,
    publications: board,
    ...toldBy(deps),
    ownerEpoch: createOwnerEpoch(path.join(dir, "owner-epoch.json"), identity.nodeId),
    ledgerFile: path.join(dir, "ledger.db"),
    clock: deps.clock,
    onFault: (error, about) => {
      const fault = faultFromError(error);
      last = fault;
      // Calls that their callers got wrong or gave up, and the end of a link that is put down, are no news.
      const isOrdinary = stopping || (about.startsWith("/") && faultRow(fault.code).blame === "caller");
      deps.log[isOrdinary ? "debug" : "warn"](about, { code: fault.code, reason: fault.message });
    },
  });
  scope.defer(async () => {
    stopping = true;
    await link.drain({ deadlineMs: drainMs, reason: "agent_stops" });
    await link[Symbol.asyncDispose]();
    // An identity that ended stays ended: `node status` and the next `node join` must find that here.
    await status.write({ ...link.status(), state: "stopped", nextAttemptMs: 0 }, final);
  });
  scope.use(
    startRenewal({
      dir,
      identity,
      renew: (request, signal) =>
        renewOverLink(identity, request, { deps, signal, address: link.status().address }),
      onRenewed: (renewed) => {
        identity = renewed;
        deps.log.info("certificate renewed", {
          expiresAt: new Date(renewed.certificateExpiresAt).toISOString(),
        });
      },
      clock: deps.clock,
    }),
  );
  const ready = Promise.withResolvers<void>();
  // Whoever does not wait for it is told by `closed`.
  ready.promise.catch(() => undefined);
  scope.spawn("status", (signal) =>
    followStatus(link, { signal, status, fault: () => last, onOnline: () => ready.resolve() }),
  );
  void link.closed.then(async (fault) => {
    if (fault.code !== "CANCELLED") final = fault;
    await status.write(link.status(), fault);
    ready.reject(fault);
  });
  return {
    ready: ready.promise,
    closed: link.closed,
    setConfigProblem: (message) => status.setProblem(message),
  };
}

/** What a link says of this program and its machine. */
function toldBy({ version, hostName }: AgentLinkParts["deps"]): {
  readonly agentVersion: string;
  readonly hostName?: string;
} {
  return { agentVersion: version, ...(hostName === undefined ? {} : { hostName }) };
}

interface FollowOptions {
  readonly signal: AbortSignal;
  readonly status: StatusWriter;
  readonly fault: () => Fault | undefined;
  readonly onOnline: () => void;
}

async function followStatus(
  link: NodeLinkHandle,
  { signal, status, fault, onOnline }: FollowOptions,
): Promise<void> {
  for await (const now of link.changes({ signal })) {
    await status.write(now, now.state === "online" ? undefined : fault());
    // A drained node is linked as well, and has published what it has.
    if (now.state === "online" || now.reason === "drained") onOnline();
  }
}

interface RenewCall {
  readonly deps: AgentLinkParts["deps"];
  readonly signal: AbortSignal;
  readonly address: string;
}

/** Renews over a connection of its own: `Pairing` is the gateway's service, and links carry calls to nodes only. */
async function renewOverLink(
  identity: NodeIdentity,
  request: Uint8Array,
  { deps, signal, address }: RenewCall,
): Promise<{ readonly certificate: Uint8Array }> {
  await using client = openGrpcClient({
    address: address === "" ? (identity.addresses[0] ?? "") : address,
    security: () => dialTls(identity, deps.clock),
    clock: deps.clock,
  });
  return await client.client(Pairing).renew({ certificateRequest: request }, { signal });
}

/** A link that a person has to mend is offline, also once its agent has stopped. */
function stateOf({ state }: LinkStatus, fault: Fault | undefined): NodeStatus["state"] {
  const isOver = isFault(fault) && !fault.retryable && fault.code !== "CANCELLED";
  if (isOver && (state === "waiting" || state === "stopped")) return "offline";
  return state === "waiting" ? "reconnecting" : state;
}

/** Writes `status.json`, one state after the other; the newest one is what stands there in the end. */
class StatusWriter {
  readonly #dir: string;
  readonly #version: string;
  #problem = "";
  #last: NodeStatus | undefined;
  #turn: Promise<void> = Promise.resolve();

  constructor(dir: string, version: string) {
    this.#dir = dir;
    this.#version = version;
  }

  async write(link: LinkStatus, fault: Fault | undefined): Promise<void> {
    this.#last = {
      state: stateOf(link, fault),
      sinceMs: link.sinceMs,
      reason: link.reason,
      code: fault?.code ?? "",
      message: fault?.message ?? "",
      retryable: fault?.retryable ?? true,
      nextStep: link.nextStep,
      attempts: link.attempts,
      lastAttemptMs: link.lastAttemptMs,
      nextAttemptMs: link.nextAttemptMs,
      address: link.address,
      version: this.#version,
      configProblem: this.#problem,
    };
    await this.#flush();
  }

  setProblem(message: string): void {
    this.#problem = message;
    if (this.#last) this.#last = { ...this.#last, configProblem: message };
    void this.#flush().catch(() => undefined);
  }

  #flush(): Promise<void> {
    const mine = this.#turn.then(async () => {
      if (this.#last) await writeNodeStatus(this.#dir, this.#last);
    });
    this.#turn = mine.catch(() => undefined);
    return mine;
  }
}
