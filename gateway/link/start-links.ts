import { Fault } from "../../shared/fault/fault.ts";
import {
  LinkPurpose,
  Node,
  NodeLink,
  OutcomeState,
  type Hello,
} from "../../shared/gen/fairlead/v1/link_pb.ts";
import { protocolWindow } from "../../shared/identity/protocol.ts";
import { systemClock, type Clock } from "../../shared/lifetime/clock.ts";
import { rawMethod, type ServerConnection, type ServerRawStream } from "../../shared/rpc/raw-stream.ts";
import { createBudget, type Budget } from "../../shared/rpc/reverse/budget.ts";
import { notThisCallFault } from "../../shared/rpc/reverse/caller.ts";
import { chooseProtocol } from "../../shared/rpc/reverse/protocol.ts";
import { serve, type ServedService } from "../../shared/rpc/service.ts";
import { acceptControl, type ControlMessage, type ControlSession } from "./accept-control.ts";
import { createAdmission, defaultAdmission } from "./admission.ts";
import { askLedger, type LostCall, type Standing } from "./ask-ledger.ts";
import {
  checkHeartbeat,
  defaultHeartbeat,
  heartbeatFor,
  watchHeartbeat,
  type HeartbeatSettings,
} from "./heartbeat.ts";
import { LateOutcomes } from "./late-outcomes.ts";
import {
  goodbyeOf,
  noHelloFault,
  noLinkFault,
  reasonOf,
  replacedFault,
  silentFault,
  unprovenFault,
} from "./link-faults.ts";
import type { LinkSide } from "./link-side.ts";
import { endLink, isParkedFor, refuseStream } from "./link-streams.ts";
import { Link } from "./link.ts";
import {
  defaultBudgets,
  type FlightBudgets,
  type LinkHost,
  type LinksOptions,
  type NodeIdentity,
} from "./links-options.ts";
import type { Links, LiveLink, NodeDrain, NodeFacts, OwedEnd, Presence, PublicationReader } from "./links.ts";
import { clientOf, forReading, untilSettled } from "./node-calls.ts";
import { NodeDuty } from "./node-duty.ts";
import { factsOf } from "./node-facts.ts";
import { NodeIdentities } from "./node-identities.ts";
import { createPresenceBroadcast, NodeState, neverLinked } from "./node-state.ts";
import { OwedEnds } from "./owed-ends.ts";
import { Publications } from "./publications.ts";

/** Starts taking links. Disposing it ends them all. */
export function startLinks(options: LinksOptions): LinkHost {
  const host = new Host(options);
  const service: ServedService = {
    service: NodeLink,
    implementation: {
      control: rawMethod((stream) => host.acceptControl(stream)),
      serve: rawMethod((stream) => host.acceptServe(stream)),
    },
  };
  return {
    service,
    questions: serve(Node, {
      getOutcome: async ({ callId }, { peer }) => await host.answerQuestion(callId, peer.certificate),
    }),
    links: host,
    setDrain: (nodeId, drain) => host.setDrain(nodeId, drain),
    tellTrust: () => host.identities.tellTrust(),
    renewed: (nodeId, expiresAt) => host.identities.renewed(nodeId, expiresAt),
    addReader: (reader) => host.addReader(reader),
    drain: (drain) => host.drain(drain),
    settled: (timeoutMs) => host.settled(timeoutMs),
    [Symbol.asyncDispose]: () => host.close(),
  };
}

class Host implements Links {
  readonly #options: LinksOptions;
  readonly #clock: Clock;
  /** Since when nodes can have linked to this process. */
  readonly #startedMs: number;
  readonly #heartbeat: HeartbeatSettings;
  readonly #budgets: FlightBudgets;
  readonly #budget: Budget;
  readonly #nodes = new Map<string, NodeState>();
  readonly identities: NodeIdentities;
  readonly #byConnection = new WeakMap<ServerConnection, { readonly link: Link; readonly side: LinkSide }>();
  readonly #owed: OwedEnds;
  readonly #admit: () => void;
  readonly #changes = createPresenceBroadcast();
  readonly #publications: Publications;
  readonly #generations = new Map<string, number>();
  readonly #closing = new AbortController();
  readonly #late: LateOutcomes;
  readonly #duty: NodeDuty;
  #draining: string | undefined;

  constructor(options: LinksOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#startedMs = this.#clock.now();
    this.identities = new NodeIdentities({ ...options, clock: this.#clock, nodes: this.#nodes });
    this.#budgets = options.budgets ?? defaultBudgets;
    this.#budget = createBudget(this.#budgets.gatewayBytes);
    this.#heartbeat = checkHeartbeat(options.heartbeat ?? defaultHeartbeat);
    this.#owed = new OwedEnds(this.#clock);
    this.#admit = createAdmission(options.admission ?? defaultAdmission, this.#clock);
    this.#publications = new Publications({
      clock: this.#clock,
      onFault: (error, { nodeId, kind }) => this.#report(error, `publication ${kind} of ${nodeId}`),
      forReading: (node, link) => forReading({ node, link, clock: this.#clock }),
    });
    const owned = { clock: this.#clock, signal: this.#closing.signal };
    this.#duty = new NodeDuty(owned);
    this.#late = new LateOutcomes({ ...owned, onLate: options.onLate });
    for (const reader of options.readers ?? []) this.#publications.add(reader);
  }

  #report(error: unknown, about: string): void {
    this.#options.onFault?.(error, about);
  }

  addReader(reader: PublicationReader): void {
    this.#publications.add(reader);
    for (const node of this.#nodes.values()) if (node.link) this.#publications.catchUp(node, node.link);
  }

  // --- what nodes dial

  acceptControl(control: ServerRawStream): void {
    acceptControl(control, this.#clock, { onHello: (hello, stream) => this.#judge(hello, stream) });
  }

  async #judge(hello: Hello, control: ServerRawStream): Promise<ControlSession> {
    const { certificate } = control.connection.peer;
    if (!certificate) throw unprovenFault(control.connection.refusal);
    this.#admit();
    const identity = await this.#options.identify(certificate);
    const protocol = this.#chooseProtocol(identity.nodeId, hello);
    if (hello.purpose === LinkPurpose.BULK) return this.#beginBulk(identity, hello, control);
    if (this.#draining !== undefined) throw new Fault("GATEWAY_UNREACHABLE", "the gateway is stopping");
    const node = this.#nodeOf(identity.nodeId);
    const from = control.connection.peer.address;
    await this.identities.admit(node, hello, from);
    const { generation, isStale } = await this.#nextGeneration(identity.nodeId, hello);
    if (node.presence.state === "revoked") throw new Fault("IDENTITY_REVOKED", "the node was revoked");
    const link = new Link({
      ...identity,
      generation,
      protocol,
      hello,
      control,
      clock: this.#clock,
      budget: this.#budget,
      budgetBytes: this.#budgets.linkBytes,
      tally: node.tally,
      clientOf: (of, service) => clientOf({ node, link: of, clock: this.#clock }, service),
    });
    this.#byConnection.set(control.connection, { link, side: link.main });
    if (isStale) this.identities.isStale(node, hello, from);
    return this.#begin(node, link);
  }

  #chooseProtocol(nodeId: string, { protocolMin: min, protocolMax: max }: Hello): number {
    try {
      return chooseProtocol(protocolWindow, { min, max });
    } catch (error) {
      this.#nodeOf(nodeId).refused("version_unsupported");
      throw error;
    }
  }

  #beginBulk({ nodeId }: NodeIdentity, hello: Hello, control: ServerRawStream): ControlSession {
    const node = this.#nodes.get(nodeId);
    const link = node?.link;
    if (!link || hello.generation !== BigInt(link.generation)) throw noHelloFault();
    const side = link.openBulk(control);
    this.#byConnection.set(control.connection, { link, side });
    side.send({ case: "accepted", value: this.#acceptanceOf(node, link) });
    const onGone = (): void => {
      link.bulk.closed(side);
      side.end(undefined);
    };
    control.connection.closed.addEventListener("abort", onGone, { once: true });
    return { onMessage: () => link.touch(), onClosed: onGone };
  }

  #acceptanceOf(node: NodeState, link: Link) {
    return {
      generation: BigInt(link.generation),
      protocol: link.protocol,
      ...heartbeatFor(link.hello, this.#heartbeat),
      nodeId: link.nodeId,
      alias: link.alias,
      gatewayVersion: this.#options.gatewayVersion ?? "",
      ownerEpoch: this.#options.ownerEpoch ?? 0n,
      ...(node.drain ? { duty: this.#duty.saidTo(node) } : {}),
    };
  }

  async #nextGeneration(
    nodeId: string,
    hello: Hello,
  ): Promise<{ readonly generation: number; readonly isStale: boolean }> {
    const presented = Number(hello.lastGeneration);
    const next = await this.#options.nextGeneration?.(nodeId, presented);
    const wanted = next?.generation ?? this.#clock.now();
    const generation = Math.max(wanted, (this.#generations.get(nodeId) ?? 0) + 1);
    this.#generations.set(nodeId, generation);
    return { generation, isStale: next?.isStale ?? false };
  }

  #begin(node: NodeState, link: Link): ControlSession {
    link.send({ case: "accepted", value: this.#acceptanceOf(node, link) });
    this.identities.begin(link);
    const onGone = (): void => this.#ended(node, link);
    link.signal.addEventListener("abort", onGone, { once: true });
    link.connection.closed.addEventListener("abort", () => link.end(link.lostFault), { once: true });
    // The new link stands before the old one ends, so that nobody sees the node leave.
    const before = node.link;
    node.linked(link);
    before?.end(replacedFault(link.alias));
    void this.#owed.pay(link);
    for (const notice of link.hello.publications) this.#publications.notice(node, link, notice);
    void watchHeartbeat(link, heartbeatFor(link.hello, this.#heartbeat), this.#clock).then((silent) => {
      if (silent) link.end(silentFault(link.alias));
    });
    return {
      onMessage: (message) => this.#hear(node, link, message),
      onClosed: () => link.end(link.lostFault),
    };
  }

  #hear(node: NodeState, link: Link, message: ControlMessage): void {
    link.touch();
    switch (message.case) {
      case "notice":
        return this.#publications.notice(node, link, message.value);
      case "ping":
        return link.send({ case: "pong", value: { sequence: message.value.sequence } });
      case "drain":
        link.startGoodbye(message.value.reason);
        return node.drains("draining");
      case "installed":
        link.installedVersion = message.value.version;
        return;
      case "report":
        return this.identities.reported(node, message.value);
      case "hello":
        // One hello a link: a second one is not heard.
        return node.tally.dropped();
      case "pong":
      case undefined:
        return;
    }
  }

  /** A link is over: the node is gone at once after a goodbye, else it may be back until it was silent for too long. */
  #ended(node: NodeState, link: Link): void {
    if (node.link !== link) return;
    const fault = link.lostFault;
    if (fault.code === "IDENTITY_REVOKED") return node.revokedAfter(link);
    if (link.saidGoodbye) return node.unlinked(link, { state: "offline", reason: goodbyeOf(link) });
    const deadAt = link.lastSeenMs + this.#heartbeat.deadAfterMs;
    const silent = this.#clock.now() >= deadAt;
    if (silent) return node.unlinked(link, { state: "offline", reason: "heartbeat_missed" });
    node.unlinked(link, { state: "reconnecting", reason: reasonOf(fault) });
    void this.#giveUpAt(node, link, deadAt);
  }

  async #giveUpAt(node: NodeState, link: Link, deadAt: number): Promise<void> {
    try {
      await this.#clock.sleep(deadAt - this.#clock.now(), { signal: this.#closing.signal });
    } catch {
      return;
    }
    const { state, generation } = node.presence;
    if (state !== "reconnecting" || generation !== link.generation) return;
    node.offline(link.lostFault.code === "IDENTITY_EXPIRED" ? "certificate_expired" : "link_lost");
  }

  acceptServe(stream: ServerRawStream): void {
    const { link, side } = this.#byConnection.get(stream.connection) ?? {};
    if (!link || !side || side.signal.aborted) return refuseStream(stream);
    const serving = side.accept(stream);
    let parked = false;
    stream.onMessage((bytes) => {
      if (parked) return serving.onMessage(bytes);
      parked = true;
      if (isParkedFor(link, bytes)) side.parked(serving);
      else stream.end(noLinkFault(stream.connection));
    });
    stream.onClosed(() => serving.onClosed());
  }

  // --- what the gateway's rooms ask for

  #nodeOf(nodeId: string): NodeState {
    const known = this.#nodes.get(nodeId);
    if (known) return known;
    const node = new NodeState({
      first: this.presence(nodeId),
      clock: this.#clock,
      onChange: (presence) => this.#changes.tell(presence),
      withdraw: (reason) => this.#publications.withdraw(nodeId, reason),
      onRanOut: (call, of) => void this.#late.follow(call, of),
    });
    this.#nodes.set(nodeId, node);
    return node;
  }

  /** Whether somebody waits for a call of the node with that certificate; `NOT_FOUND` when it is none of its own. */
  async answerQuestion(callId: string, certificate: Uint8Array | undefined) {
    if (!certificate) throw unprovenFault(undefined);
    const { nodeId } = await this.#options.identify(certificate);
    if (this.#nodes.get(nodeId)?.link?.carries(callId) === true) return { state: OutcomeState.RUNNING };
    throw notThisCallFault(callId);
  }

  setDrain(nodeId: string, drain: NodeDrain | undefined): void {
    const node = this.#nodeOf(nodeId);
    if (drain) this.#duty.drain(node, drain);
    else this.#duty.undrain(node);
  }

  facts(nodeId: string): NodeFacts {
    return factsOf(this.#nodes.get(nodeId));
  }

  find(nodeId: string): LiveLink | undefined {
    return this.#nodes.get(nodeId)?.link;
  }

  get(nodeId: string): LiveLink {
    const link = this.find(nodeId);
    if (link) return link;
    throw this.#nodeOf(nodeId).offlineFault();
  }

  presence(nodeId: string): Presence {
    return (
      this.#nodes.get(nodeId)?.presence ??
      this.#options.recalled?.get(nodeId) ??
      neverLinked(nodeId, this.#startedMs)
    );
  }

  changes({ signal }: { readonly signal: AbortSignal }): AsyncGenerator<Presence> {
    const first = (): Iterable<Presence> => this.#nodes.values().map((node) => node.presence);
    return this.#changes.watch({ signal, first });
  }

  async standing(
    nodeId: string,
    call: LostCall,
    asking: { readonly signal: AbortSignal },
  ): Promise<Standing> {
    const node = this.#nodeOf(nodeId);
    return await askLedger(call, { ...asking, node, clock: this.#clock, untilEnded: false });
  }

  endJob(nodeId: string, job: OwedEnd): void {
    this.#owed.owe(nodeId, job, this.find(nodeId));
  }

  async end(nodeId: string, fault: Fault): Promise<void> {
    const node = this.#nodes.get(nodeId);
    const link = node?.link;
    if (fault.code === "IDENTITY_REVOKED" && !link) this.#nodeOf(nodeId).revoked();
    if (!link) return;
    await endLink(link, fault, this.#clock);
  }

  drain({ deadlineMs, reason }: { readonly deadlineMs: number; readonly reason: string }): void {
    this.#draining = reason;
    for (const { link } of this.#nodes.values()) {
      if (!link) continue;
      link.draining = reason;
      link.send({ case: "drain", value: { deadlineMs, reason } });
    }
  }

  async settled(timeoutMs: number): Promise<void> {
    await untilSettled(() => this.#nodes.values(), { timeoutMs, clock: this.#clock });
  }

  async close(): Promise<void> {
    this.#draining ??= "stopping";
    const stopping = new Fault("NODE_OFFLINE", "the gateway is stopping", {
      details: { reason: "gateway_stopping" },
    });
    await Promise.all(Array.from(this.#nodes.keys(), (nodeId) => this.end(nodeId, stopping)));
    this.#closing.abort(stopping);
    this.#changes.close();
  }
}
