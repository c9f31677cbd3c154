import path from "node:path";
import { faultRow } from "../shared/fault/codes.ts";
import { faultFromError } from "../shared/fault/fault-from-error.ts";
import type { Fault } from "../shared/fault/fault.ts";
import { PublicationKind, type TrustUpdate } from "../shared/gen/fairlead/v1/link_pb.ts";
import { Pairing } from "../shared/gen/fairlead/v1/pairing_pb.ts";
import { tryReadCertificate } from "../shared/identity/node-name.ts";
import { startDeadline } from "../shared/lifetime/clock.ts";
import type { Scope } from "../shared/lifetime/scope.ts";
import type { Log } from "../shared/log/log.ts";
import { openGrpcClient } from "../shared/rpc/grpc-client.ts";
import type { ServedService } from "../shared/rpc/service.ts";
import type { AgentDeps } from "./agent.ts";
import type { RenewalProblem } from "./config/status-file.ts";
import type { RecordedJobs } from "./link/job-outcomes.ts";
import type { LinkOptions, NodeLinkHandle } from "./link/link-options.ts";
import { createOwnerEpoch } from "./link/owner-epoch.ts";
import type { PublicationBoard } from "./link/publications.ts";
import { startLink } from "./link/start-link.ts";
import { watchDialler } from "./link/watch-dialler.ts";
import { type HeldIdentity, holdIdentity } from "./pairing/held-identity.ts";
import type { NodeIdentity } from "./pairing/identity.ts";
import { keepJoinState, readJoinState } from "./pairing/join-state.ts";
import { type DialDoubt, doubtAfter, mendBeforeDial, renewLapsedAt } from "./pairing/mend-before-dial.ts";
import { type RenewalState, startRenewal } from "./pairing/renew.ts";
import { dialTls } from "./pairing/tls.ts";
import { followTrust } from "./pairing/trust.ts";
import { StatusWriter } from "./status-writer.ts";
import { watchInstalled } from "./watch-installed.ts";

/** How long calls that run may go on once the agent stops, in milliseconds. */
const drainMs = 2_000;

/** What the agent's link stands on. */
export interface AgentLinkParts {
  readonly identity: NodeIdentity;
  /** The node's folder. */
  readonly dir: string;
  readonly services: readonly ServedService[];
  /** What the ledger asks about jobs. */
  readonly jobs: RecordedJobs;
  /** Told whether the link is up, whenever that changes. */
  readonly onLinked: (isUp: boolean) => void;
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
  const { deps, dir, services, board, identity } = parts;
  const held = holdIdentity(dir, identity);
  let doubt: DialDoubt | undefined;
  let last: Fault | undefined;
  let final: Fault | undefined;
  let stopping = false;
  const status = new StatusWriter(dir, deps.version);
  const link = startLink({
    addresses: identity.addresses,
    onTrust: (update) => void renewal.follow(update),
    lastGeneration: await readJoinState(dir, identity.nodeId),
    onGeneration: keepJoinState(dir, identity.nodeId, (error) =>
      deps.log.warn("the link's generation is not kept", { reason: faultFromError(error).message }),
    ),
    loadTls: () => dialTls(held.current, deps.clock),
    beforeDial: async (address, signal) => {
      const before = held.current;
      await mendBeforeDial(held, { address, clock: deps.clock, signal, doubt });
      doubt = undefined;
      if (held.current !== before) tellRenewed(deps.log, held.current);
    },
    services,
    publications: board,
    ...toldBy(deps),
    ...recordedAt(parts),
    clock: deps.clock,
    onFault: (error, about) => {
      const fault = faultFromError(error);
      last = fault;
      if (about.startsWith("link to ")) doubt = doubtAfter(fault);
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
  const renewal = keepRenewed(scope, { held, deps, link, status });
  const ready = Promise.withResolvers<void>();
  // Whoever does not wait for it is told by `closed`.
  ready.promise.catch(() => undefined);
  scope.spawn("status", (signal) =>
    followStatus(link, { signal, status, fault: () => last, onOnline: ready.resolve, parts }),
  );
  watchAgent(scope, { link, status, deps });
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

/** How long a gateway may take to read what is published; one of an earlier version never says that it did, in milliseconds. */
const readWithinMs = 3_000;

/** Resolves once whoever asks the gateway finds there what this machine publishes; skills that are still sought follow. */
async function untilPublished(
  outer: AbortSignal,
  { board, deps }: Pick<AgentLinkParts, "board" | "deps">,
): Promise<void> {
  const { clock, firstSearchMs = readWithinMs } = deps;
  const isSearchAwaited = firstSearchMs >= readWithinMs;
  const without = isSearchAwaited ? [] : [PublicationKind.SKILLS];
  using patience = startDeadline({ timeoutMs: readWithinMs, signal: outer, clock });
  await board.untilRead(patience.signal, without).catch(() => undefined);
}

/** What outlives the process: what runs at most once, what is asked about jobs, and the epoch of the last owner. */
function recordedAt({
  dir,
  jobs,
  identity,
}: AgentLinkParts): Pick<LinkOptions, "ownerEpoch" | "ledgerFile" | "jobs"> {
  return {
    ownerEpoch: createOwnerEpoch(path.join(dir, "owner-epoch.json"), identity.nodeId),
    ledgerFile: path.join(dir, "ledger.db"),
    jobs,
  };
}

/** What a link says of this program and its machine. */
function toldBy({ version, hostName }: AgentLinkParts["deps"]): {
  readonly agentVersion: string;
  readonly hostName?: string;
} {
  return { agentVersion: version, ...(hostName === undefined ? {} : { hostName }) };
}

interface WatchedAgent {
  readonly link: NodeLinkHandle;
  readonly status: StatusWriter;
  readonly deps: AgentLinkParts["deps"];
}

/** Ends the agent when its dialler is stuck, and shows when another version of it is installed. */
function watchAgent(scope: Scope, { link, status, deps }: WatchedAgent): void {
  scope.spawn("watchdog", async (signal) => {
    const stuck = await watchDialler({ status: () => link.status(), clock: deps.clock, signal });
    if (stuck) throw stuck;
  });
  scope.spawn("installed version", (signal) =>
    watchInstalled({
      running: deps.version,
      clock: deps.clock,
      signal,
      onChange: (version) => {
        link.setInstalled(version);
        status.setInstalled(version);
        if (version !== "") deps.log.warn("restart needed", { installed: version, running: deps.version });
      },
    }),
  );
}

interface FollowOptions {
  readonly signal: AbortSignal;
  readonly status: StatusWriter;
  readonly fault: () => Fault | undefined;
  readonly onOnline: () => void;
  readonly parts: Pick<AgentLinkParts, "onLinked" | "board" | "deps">;
}

async function followStatus(
  link: NodeLinkHandle,
  { signal, status, fault, onOnline, parts }: FollowOptions,
): Promise<void> {
  for await (const now of link.changes({ signal })) {
    await status.write(now, now.state === "online" ? undefined : fault());
    // A drained node is linked as well, and has published what it has.
    if (now.state === "online" || now.reason === "drained") void untilPublished(signal, parts).then(onOnline);
    parts.onLinked(now.state === "online" || now.state === "draining");
  }
}

interface KeepParts {
  readonly held: HeldIdentity;
  readonly deps: AgentLinkParts["deps"];
  readonly link: NodeLinkHandle;
  readonly status: StatusWriter;
}

interface KeptIdentity {
  /** Follows a statement of trust. */
  readonly follow: (update: TrustUpdate) => Promise<void>;
}

/** Renews the certificate in time, and trusts whom the gateway's authority names; how it does is shown here and there. */
function keepRenewed(scope: Scope, { held, deps, link, status }: KeepParts): KeptIdentity {
  let told = "";
  let ignored = 0n;
  const tell = (state: RenewalState): void => {
    const problem = toProblem(state);
    status.setRenewal(problem);
    const renewal = problem && {
      ...problem,
      sinceMs: BigInt(problem.sinceMs),
      expiresMs: BigInt(problem.expiresMs),
    };
    link.report({
      trustedPins: [...held.current.pins],
      ignoredTrustSerial: ignored,
      ...(renewal ? { renewal } : {}),
    });
    // One line for each kind of failure: it is tried again for as long as it takes.
    if (problem && problem.code !== told)
      deps.log.warn("the certificate is not renewed", { code: problem.code, reason: problem.message });
    told = problem?.code ?? "";
  };
  const renewal = scope.use(
    startRenewal({
      held,
      renew: (request, signal) =>
        renewOverLink(held, request, { deps, signal, address: link.status().address }),
      onRenewed: (renewed) => tellRenewed(deps.log, renewed),
      onState: tell,
      clock: deps.clock,
    }),
  );
  tell(renewal.status());
  return {
    follow: async (update) => {
      try {
        const outcome = await followTrust(held, update);
        if (outcome === "taken")
          deps.log.info("other authorities are trusted", { pins: held.current.pins.join() });
        if (outcome === "ignored")
          deps.log.warn("a statement of trust is ignored: it is not signed by a trusted authority");
        ignored = outcome === "ignored" ? update.serial : 0n;
        tell(renewal.status());
        if (outcome !== "ignored" && !isIssuedBy(held.current, update.signerPin)) renewal.hasten();
      } catch (error) {
        const { code, message } = faultFromError(error);
        deps.log.warn("a statement of trust could not be kept", { code, reason: message });
      }
    },
  };
}

/** Authorities have a part of their pin in their name. */
function isIssuedBy({ certificatePem }: NodeIdentity, pin: string): boolean {
  const issuer = tryReadCertificate(certificatePem)?.issuer ?? "";
  return pin === "" || issuer.endsWith(pin.slice("sha256:".length, "sha256:".length + 16));
}

function toProblem(state: RenewalState): RenewalProblem | undefined {
  if (state.kind !== "failing") return undefined;
  const { code, message } = state.fault;
  return { sinceMs: Math.round(state.since), code, message, expiresMs: Math.round(state.expiresAt) };
}

function tellRenewed(log: Log, { certificateExpiresAt }: NodeIdentity): void {
  log.info("certificate renewed", { expiresAt: new Date(certificateExpiresAt).toISOString() });
}

interface RenewCall {
  readonly deps: AgentLinkParts["deps"];
  readonly signal: AbortSignal;
  readonly address: string;
}

/** Renews over a connection of its own: `Pairing` is the gateway's service, and links carry calls to nodes only. */
async function renewOverLink(
  held: HeldIdentity,
  request: Uint8Array,
  { deps, signal, address: linked }: RenewCall,
): Promise<{ readonly certificate: Uint8Array }> {
  const { clock } = deps;
  const { addresses, nodeId, certificateExpiresAt } = held.current;
  const address = linked === "" ? (addresses[0] ?? "") : linked;
  // No handshake takes a certificate that has ended.
  if (clock.now() >= certificateExpiresAt) {
    return { certificate: await renewLapsedAt(held, { address, clock, signal }) };
  }
  await using client = openGrpcClient({ address, security: () => dialTls(held.current, clock), clock });
  return await client.client(Pairing).renew({ certificateRequest: request, nodeId }, { signal });
}
