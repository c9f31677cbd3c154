import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { createBroadcast } from "../../shared/flow/broadcast.ts";
import { LinkPurpose, type Duty, type HelloAccepted } from "../../shared/gen/fairlead/v1/link_pb.ts";
import { protocolWindow } from "../../shared/identity/protocol.ts";
import { systemClock, type Clock } from "../../shared/lifetime/clock.ts";
import { createDispatcher, type Dispatcher } from "../../shared/rpc/dispatch.ts";
import type { AnsweredCall } from "../../shared/rpc/reverse/answerer.ts";
import { Connection } from "./connection.ts";
import { DutyRoster } from "./duty.ts";
import { judgeEnd } from "./judge-end.ts";
import { createLedger, type Ledger } from "./ledger.ts";
import type { IdentityReport, LinkOptions, NodeLinkHandle } from "./link-options.ts";
import { initialStatus, type LinkStatus } from "./link-status.ts";
import { createRedial, type Redial } from "./redial.ts";
import { untilListening } from "./until-listening.ts";
import { watchForWake } from "./watch-for-wake.ts";

/** Starts dialling. Disposing it says goodbye and ends it; drain it first. */
export function startLink(options: LinkOptions): NodeLinkHandle {
  const dialler = new Dialler(options);
  void dialler.run();
  return {
    status: () => dialler.status,
    changes: ({ signal }) => dialler.changes(signal),
    report: (report) => dialler.report(report),
    drain: (drain) => dialler.drain(drain),
    setInstalled: (version) => dialler.setInstalled(version),
    closed: dialler.closed,
    [Symbol.asyncDispose]: () => dialler.stop(),
  };
}

const goodbyeMs = 500;

/** The heartbeat of a gateway that has not announced its own, in milliseconds. */
const usualHeartbeatMs = 10_000;

/** The longest interval that is asked for, in milliseconds. */
const longestHeartbeatMs = 300_000;

/** A link that shows no sign of life for so long after the machine slept is dialled anew, in milliseconds. */
const probeLimitMs = 3000;

/** For so long after a link was lost is looked whether somebody listens again, in milliseconds. */
const lookForMs = 60_000;

class Dialler {
  readonly #options: LinkOptions;
  readonly #clock: Clock;
  readonly #redial: Redial;
  readonly #dispatcher: Dispatcher;
  readonly #ledger: Ledger;
  readonly #bootId: string;
  readonly #running = new Set<AnsweredCall>();
  readonly #duty: DutyRoster;
  readonly #stopping = new AbortController();
  readonly #closed = Promise.withResolvers<Fault>();
  readonly #changes = createBroadcast<LinkStatus>({
    limit: 1,
    keyOf: () => "status",
    onOverflow: () => this.#status,
  });
  #status: LinkStatus;
  #connection: Connection | undefined;
  #unknownCount = 0;
  #wake = new AbortController();
  /** The address that a link came up through last. */
  #lastGood = "";
  /** When the last link was lost, or the dialling began. */
  #lostAt: number;
  #leaving = false;
  #installedVersion = "";
  /** What the way to the gateway bears, once something on it has complained. */
  #heartbeatAtLeastMs = 0;
  #report: IdentityReport | undefined;
  #lastGeneration: number;

  constructor(options: LinkOptions) {
    if (options.addresses.length === 0)
      throw new Fault("INVALID_ARGUMENT", "a link needs an address", { details: { field: "addresses" } });
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#lastGeneration = options.lastGeneration ?? 0;
    this.#lostAt = this.#clock.now();
    this.#redial = createRedial(options.random);
    this.#ledger = createLedger({
      dispatcher: createDispatcher(options.services),
      clock: this.#clock,
      file: options.ledgerFile,
      jobs: options.jobs,
      onFault: options.onFault,
    });
    this.#dispatcher = createDispatcher([...options.services, this.#ledger.service]);
    this.#bootId = options.bootId ?? randomUUID();
    this.#duty = new DutyRoster({
      clock: this.#clock,
      running: this.#running,
      endJobs: options.jobs?.endAll,
      signal: this.#stopping.signal,
    });
    this.#status = initialStatus(this.#clock.now());
  }

  get status(): LinkStatus {
    return this.#status;
  }

  get closed(): Promise<Fault> {
    return this.#closed.promise;
  }

  changes(signal: AbortSignal): AsyncGenerator<LinkStatus> {
    return this.#changes.watch({ signal, first: () => [this.#status] });
  }

  #change(next: Partial<LinkStatus>): void {
    const sinceMs =
      next.state !== undefined && next.state !== this.#status.state
        ? this.#clock.now()
        : this.#status.sinceMs;
    this.#status = { ...this.#status, sinceMs, ...next };
    this.#changes.tell(this.#status);
  }

  async run(): Promise<void> {
    void watchForWake({ clock: this.#clock, signal: this.#stopping.signal, onWake: () => this.#onWake() });
    try {
      while (!this.#stopping.signal.aborted) {
        const end = await this.#dialEach();
        if (end.final) return this.#finish(end.fault);
        // A gateway that says when has spread its nodes itself.
        const waitMs = end.atLeastMs > 0 ? end.atLeastMs : this.#redial.nextWaitMs();
        const isRefused = end.reason === "connection_refused";
        this.#change({
          state: "waiting",
          reason: end.reason,
          nextStep: end.nextStep,
          nextAttemptMs: this.#clock.now() + waitMs,
        });
        await this.#pause(waitMs, isRefused && this.#clock.now() - this.#lostAt < lookForMs);
      }
    } catch (error) {
      this.#options.onFault?.(error, "link");
    }
    const reason: unknown = this.#stopping.signal.reason;
    this.#finish(reason instanceof Fault ? reason : new Fault("CANCELLED", "the link was closed"));
  }

  /** Waits before the next dial; a machine that wakes up dials at once, and so does one that sees its gateway listen again. */
  async #pause(waitMs: number, looks: boolean): Promise<void> {
    this.#wake = new AbortController();
    const over = new AbortController();
    const signal = AbortSignal.any([this.#stopping.signal, this.#wake.signal, over.signal]);
    const { addresses, random = Math.random } = this.#options;
    const waits = [this.#clock.sleep(waitMs, { signal })];
    if (looks) waits.push(untilListening({ addresses, clock: this.#clock, random, signal }));
    await Promise.race(waits).catch(() => undefined);
    over.abort();
    await Promise.allSettled(waits);
  }

  #onWake(): void {
    this.#wake.abort();
    void this.#connection?.probe(probeLimitMs);
  }

  #finish(fault: Fault): void {
    this.#stopping.abort(fault);
    const { reason, nextStep } = judgeEnd(fault, { unknownCount: this.#unknownCount });
    this.#change({ state: "stopped", reason, nextStep, nextAttemptMs: 0 });
    this.#changes.close();
    this.#ledger[Symbol.dispose]();
    this.#closed.resolve(fault);
  }

  /** Dials each address once, the one that worked last first; returns when a link has ended or none came up. */
  async #dialEach(): Promise<ReturnType<typeof judgeEnd>> {
    const { addresses } = this.#options;
    const first = Math.max(0, addresses.indexOf(this.#lastGood));
    let end = judgeEnd(new Fault("GATEWAY_UNREACHABLE", "nothing was dialled"), { unknownCount: 0 });
    for (let at = 0; at < addresses.length; at += 1) {
      const address = addresses[(first + at) % addresses.length] ?? "";
      const begunAt = this.#clock.now();
      const { attempts } = this.#status;
      this.#change({
        state: "connecting",
        attempts: attempts + 1,
        lastAttemptMs: begunAt,
        nextAttemptMs: 0,
        address,
      });
      const { fault, wasOnline, onlineAt } = await this.#dial(address);
      this.#unknownCount = fault.code === "IDENTITY_UNKNOWN" ? this.#unknownCount + 1 : 0;
      end = judgeEnd(fault, { unknownCount: this.#unknownCount });
      if (!this.#stopping.signal.aborted) this.#options.onFault?.(fault, `link to ${address}`);
      if (wasOnline) this.#lastGood = address;
      if (wasOnline) {
        this.#lostAt = this.#clock.now();
        this.#redial.lived(this.#lostAt - onlineAt);
      }
      if (end.final || wasOnline || this.#stopping.signal.aborted) break;
    }
    return end;
  }

  async #dial(
    address: string,
  ): Promise<{ readonly fault: Fault; readonly wasOnline: boolean; readonly onlineAt: number }> {
    const refused = await this.#prepare(address);
    if (refused) return { fault: refused, wasOnline: false, onlineAt: 0 };
    const publishing = new AbortController();
    let onlineAt = 0;
    const connection = new Connection({
      address,
      security: this.#options.loadTls,
      hello: this.#hello(),
      dispatcher: this.#dispatcher,
      answer: (call) =>
        call.path.startsWith("/fairlead.v1.Node/")
          ? this.#dispatcher.answer(call)
          : this.#ledger.answer(call),
      clock: this.#clock,
      running: this.#running,
      judge: async ({ ownerEpoch }) => await this.#options.ownerEpoch?.accept(ownerEpoch),
      onAccepted: (accepted) => {
        onlineAt = this.#clock.now();
        this.#online(accepted);
        if (this.#report) connection.say({ case: "report", value: this.#report });
        void this.#publish(connection, publishing.signal);
      },
      ...(this.#options.onTrust ? { onTrust: this.#options.onTrust } : {}),
      onDrain: (reason) =>
        this.#options.onFault?.(new Fault("CANCELLED", `the gateway drains: ${reason}`), "link"),
      onDuty: (duty) => this.#follow(duty),
      onRead: (read) => this.#options.publications?.onRead?.(read),
      onExcessPings: () => this.#slowDown(connection.accepted?.heartbeatMs),
      onFailed: (error, { path }) => this.#options.onFault?.(error, path),
    });
    this.#connection = connection;
    const fault = await connection.ended;
    publishing.abort();
    this.#connection = undefined;
    return { fault, wasOnline: connection.accepted !== undefined, onlineAt };
  }

  async #prepare(address: string): Promise<Fault | undefined> {
    try {
      await this.#options.beforeDial?.(address, this.#stopping.signal);
      return undefined;
    } catch (error) {
      return faultFromError(error);
    }
  }

  report(report: IdentityReport): void {
    this.#report = report;
    if (this.#connection?.accepted) this.#connection.say({ case: "report", value: report });
  }

  #hello() {
    const { min, max } = this.#options.protocol ?? protocolWindow;
    return {
      protocolMin: min,
      protocolMax: max,
      bootId: this.#bootId,
      purpose: LinkPurpose.CONTROL,
      lastGeneration: BigInt(this.#lastGeneration),
      runningCallIds: [...this.#ledger.runningCallIds()],
      agentVersion: this.#options.agentVersion ?? "",
      platform: process.platform,
      arch: process.arch,
      hostName: this.#options.hostName ?? hostname(),
      publications: [...(this.#options.publications?.current() ?? [])],
      methods: [...this.#dispatcher.methods],
      ledgerId: this.#ledger.id,
      installedVersion: this.#installedVersion,
      heartbeatAtLeastMs: this.#heartbeatAtLeastMs,
      shortCalls: this.#options.shortCalls ?? true,
    };
  }

  /** A proxy on the way counted too many pings: the next links ask for half as many. */
  #slowDown(heartbeatMs: number | undefined): Fault {
    const used = heartbeatMs ?? Math.max(this.#heartbeatAtLeastMs, usualHeartbeatMs);
    this.#heartbeatAtLeastMs = Math.min(longestHeartbeatMs, used * 2);
    const message = `something on the way to the gateway bears no more pings: one in ${this.#heartbeatAtLeastMs} ms from now on`;
    return new Fault("GATEWAY_UNREACHABLE", message, { details: { reason: "too_many_pings" } });
  }

  #follow(duty: Duty | undefined): void {
    this.#duty.follow(duty);
    const { drain } = this.#duty;
    if (this.#leaving || !this.#connection?.accepted) return;
    if (!drain) return this.#change({ state: "online", reason: "linked", nextStep: "" });
    const nextStep = `on the gateway: fairlead nodes undrain ${this.#status.alias}`;
    this.#change({
      state: "draining",
      reason: "drained",
      nextStep: drain.note === "" ? nextStep : `${nextStep} (${drain.note})`,
    });
  }

  setInstalled(version: string): void {
    if (version === this.#installedVersion) return;
    this.#installedVersion = version;
    if (this.#connection?.accepted) this.#connection.say({ case: "installed", value: { version } });
  }

  #online({ nodeId, alias, generation, duty }: HelloAccepted): void {
    this.#lastGeneration = Number(generation);
    this.#options.onGeneration?.(this.#lastGeneration);
    this.#change({
      state: "online",
      reason: "linked",
      nextStep: "",
      attempts: 0,
      nodeId,
      alias,
      generation: Number(generation),
    });
    this.#follow(duty);
  }

  /** Says what changed. What changed between the hello and now is said again: equal digests move nothing. */
  async #publish(connection: Connection, signal: AbortSignal): Promise<void> {
    const { publications } = this.#options;
    if (!publications) return;
    try {
      for (const notice of publications.current()) connection.say({ case: "notice", value: notice });
      for await (const notice of publications.changes({ signal })) {
        if (signal.aborted) return;
        connection.say({ case: "notice", value: notice });
      }
    } catch (error) {
      if (!signal.aborted) this.#options.onFault?.(error, "publications");
    }
  }

  async drain(options: { readonly deadlineMs: number; readonly reason: string }): Promise<void> {
    if (!this.#connection?.accepted) return;
    this.#leaving = true;
    this.#change({ state: "draining", reason: "draining" });
    await this.#connection.drain(options);
  }

  async stop(): Promise<void> {
    const fault = new Fault("CANCELLED", "the link was closed");
    if (!this.#stopping.signal.aborted) {
      this.#stopping.abort(fault);
      const connection = this.#connection;
      if (connection?.accepted) {
        if (!this.#leaving) connection.say({ case: "drain", value: { deadlineMs: 0, reason: "stopping" } });
        await connection.close(fault, goodbyeMs);
      } else connection?.end(fault);
    }
    await this.#closed.promise;
  }
}
