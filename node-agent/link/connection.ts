import { setImmediate } from "node:timers/promises";
import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import {
  LinkPurpose,
  NodeLinkControlRequestSchema,
  NodeLinkControlResponseSchema,
  type Duty,
  type HelloAccepted,
  type HelloSchema,
  type NodeLinkControlResponse,
  type PublicationRead,
  type TrustUpdate,
} from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { ClientSecurity } from "../../shared/rpc/client-credentials.ts";
import { decodeMessage } from "../../shared/rpc/codec.ts";
import type { Dispatcher } from "../../shared/rpc/dispatch.ts";
import { encodedOf } from "../../shared/rpc/encoded.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import { openGrpcClient, type GrpcClient } from "../../shared/rpc/grpc-client.ts";
import { connectTimeoutMs } from "../../shared/rpc/limits.ts";
import type { ClientRawStream } from "../../shared/rpc/raw-stream.ts";
import type { Answer, AnsweredCall } from "../../shared/rpc/reverse/answerer.ts";
import { createBudget, type Budget } from "../../shared/rpc/reverse/budget.ts";
import { ServeStreams } from "./serve-streams.ts";

const controlPath = "/fairlead.v1.NodeLink/Control";
const servePath = "/fairlead.v1.NodeLink/Serve";

/** Bytes that the requests of one connection may have in flight. */
const linkBudgetBytes: number = 64 * 1024 * 1024;

/** What one connection to a gateway is made of. */
export interface ConnectionOptions {
  readonly address: string;
  readonly security: ClientSecurity;
  readonly hello: MessageInitShape<typeof HelloSchema>;
  readonly dispatcher: Dispatcher;
  readonly answer: Answer;
  readonly clock: Clock;
  /** Every call that runs on any connection of the node. */
  readonly running: Set<AnsweredCall>;
  /** Judges what the gateway accepted, before any call of it can run; a fault ends the connection. */
  readonly judge?: (accepted: HelloAccepted) => Promise<Fault | undefined>;
  /** The hello was accepted. */
  readonly onAccepted: (accepted: HelloAccepted) => void;
  /** Whether it carries the large transfers of a link that is up already. */
  readonly isBulk?: boolean;
  /** The gateway says which authorities to trust. */
  readonly onTrust?: (update: TrustUpdate) => void;
  /** Something of the gateway arrived. */
  readonly onHeard?: () => void;
  /** The gateway leaves on purpose. */
  readonly onDrain: (reason: string) => void;
  /** The administrator took the node out of service, or back. */
  readonly onDuty: (duty: Duty) => void;
  /** The gateway has read a publication. */
  readonly onRead?: (read: PublicationRead) => void;
  /** Something on the way ended the connection because of too many pings. */
  readonly onExcessPings?: () => Fault;
  readonly onFailed: (error: unknown, call: { readonly callId: string; readonly path: string }) => void;
}

/** A gateway that is refused has so long to read why, in milliseconds. */
const refusedMs = 500;

/** How long a drain waits for what has ended to be answered, in milliseconds. */
const lastAnswersMs = 250;

/** Turns of the event loop in which streams hand on what they hold. */
const flushTurns = 5;

type Said = MessageInitShape<typeof NodeLinkControlRequestSchema>["kind"];

/**
 * One connection, from its dial to its end. States: dialling (until the hello is accepted, within the connect deadline),
 * open, ended. It is never dialled again.
 */
export class Connection {
  readonly #options: ConnectionOptions;
  readonly #client: GrpcClient;
  readonly #control: ClientRawStream;
  readonly #ended = Promise.withResolvers<Fault>();
  readonly #over = new AbortController();
  readonly #budget: Budget = createBudget(linkBudgetBytes);
  #judging = false;
  /** Why this side said goodbye, once it has. */
  #leaving: Fault | undefined;
  #accepted: HelloAccepted | undefined;
  #streams: ServeStreams | undefined;
  #bulk: Connection | undefined;
  #heardAt: number;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#heardAt = options.clock.now();
    this.#client = openGrpcClient({
      address: options.address,
      security: options.security,
      clock: options.clock,
      onExcessPings: () => this.#endForPings(),
    });
    this.#control = this.#client.openStream(controlPath);
    this.#control.onMessage((bytes) => this.#hear(bytes));
    this.#control.onClosed((fault) =>
      this.end(this.#leaving ?? fault ?? new Fault("GATEWAY_UNREACHABLE", "the gateway ended the link")),
    );
    this.say({ case: "hello", value: options.hello });
    void this.#expectAcceptance();
  }

  /** Resolves with why the connection is over; never rejects. */
  get ended(): Promise<Fault> {
    return this.#ended.promise;
  }

  /** What the gateway accepted, once it has. */
  get accepted(): HelloAccepted | undefined {
    return this.#accepted;
  }

  /** Calls that run, on the bulk connection too. */
  get callCount(): number {
    return (this.#streams?.callCount ?? 0) + (this.#bulk?.callCount ?? 0);
  }

  async #expectAcceptance(): Promise<void> {
    try {
      await this.#options.clock.sleep(connectTimeoutMs, { signal: this.#over.signal });
    } catch {
      return;
    }
    if (this.#accepted) return;
    this.end(
      new Fault(
        "GATEWAY_UNREACHABLE",
        `${this.#options.address} accepted no hello within ${connectTimeoutMs} ms`,
        {
          details: { reason: "connect_timeout", target: this.#options.address },
        },
      ),
    );
  }

  /** Sends a message on the control stream. */
  say(kind: Said): void {
    if (this.#over.signal.aborted || !kind) return;
    const message = create(NodeLinkControlRequestSchema, { kind });
    this.#control.write(encodedOf(toBinary(NodeLinkControlRequestSchema, message)));
  }

  #heard(): void {
    this.#heardAt = this.#options.clock.now();
    this.#options.onHeard?.();
  }

  #hear(bytes: Buffer): void {
    this.#heard();
    try {
      this.#obey(decodeMessage(NodeLinkControlResponseSchema, bytes).kind);
    } catch (error) {
      this.end(
        error instanceof Fault ? error : new Fault("INTERNAL", "the control stream broke", { cause: error }),
      );
    }
  }

  #obey(message: NodeLinkControlResponse["kind"]): void {
    switch (message.case) {
      case "accepted":
        return void this.#judge(message.value);
      case "ping":
        return this.say({ case: "pong", value: { sequence: message.value.sequence } });
      case "moreStreams":
        return void this.#streams?.openUntil(message.value.target);
      case "cancelCall": {
        const { callId, fault } = message.value;
        const why = fault ? fromWireFault(fault) : new Fault("CANCELLED", "the caller has left");
        this.#streams?.cancelCall(callId, why);
        return this.#bulk?.cancelCall(callId, why);
      }
      case "drain":
        return this.#options.onDrain(message.value.reason);
      case "openBulk":
        return this.#openBulk();
      case "trust":
        return this.#options.onTrust?.(message.value);
      case "duty":
        return this.#options.onDuty(message.value);
      case "read":
        return this.#options.onRead?.(message.value);
      case "pong":
      case undefined:
        return;
    }
  }

  /** A call of this connection, or of its bulk connection, lost its caller. */
  cancelCall(callId: string, fault: Fault): void {
    this.#streams?.cancelCall(callId, fault);
  }

  #openBulk(): void {
    if (!this.#accepted || this.#bulk || this.#options.isBulk) return;
    const bulk = new Connection({
      ...this.#options,
      isBulk: true,
      hello: { ...this.#options.hello, purpose: LinkPurpose.BULK, generation: this.#accepted.generation },
      onAccepted: () => undefined,
      onDrain: () => undefined,
      onDuty: () => undefined,
      onHeard: () => {
        this.#heardAt = this.#options.clock.now();
      },
    });
    this.#bulk = bulk;
    void bulk.ended.then(() => {
      if (this.#bulk === bulk) this.#bulk = undefined;
    });
  }

  #endForPings(): void {
    const fault = this.#options.onExcessPings?.();
    if (fault) this.end(fault);
  }

  /** No stream is there for a call before the gateway was judged. */
  async #judge(accepted: HelloAccepted): Promise<void> {
    if (this.#judging) return;
    this.#judging = true;
    const refusal = await this.#options.judge?.(accepted).catch(faultFromError);
    if (this.#over.signal.aborted) return;
    if (!refusal) return this.#begin(accepted);
    this.say({ case: "drain", value: { deadlineMs: 0, reason: reasonOf(refusal) } });
    await this.close(refusal, refusedMs);
  }

  #begin(accepted: HelloAccepted): void {
    this.#accepted = accepted;
    const { dispatcher, answer, clock, onFailed, onAccepted, running } = this.#options;
    this.#streams = new ServeStreams({
      open: () => this.#client.openStream(servePath),
      generation: accepted.generation,
      dispatcher,
      answer,
      budget: this.#budget,
      clock,
      running,
      onAlive: () => this.#heard(),
      onFailed,
    });
    void this.#streams.openUntil(1);
    // Only the control connection has a heartbeat: on a slow line it must not wait behind a file.
    if (!this.#options.isBulk) void this.#watchSilence(accepted.deadAfterMs);
    onAccepted(accepted);
  }

  /** A gateway that pings no more is given up. */
  async #watchSilence(deadAfterMs: number): Promise<void> {
    const { clock } = this.#options;
    for (;;) {
      const deadAt = this.#heardAt + deadAfterMs;
      try {
        await clock.sleep(Math.max(1, deadAt - clock.now()), { signal: this.#over.signal });
      } catch {
        return;
      }
      // After a stall of this process what arrived meanwhile is read first: its own silence is not the gateway's.
      await setImmediate();
      if (this.#over.signal.aborted) return;
      if (clock.now() < this.#heardAt + deadAfterMs) continue;
      return this.end(
        new Fault("GATEWAY_UNREACHABLE", `the gateway gave no sign of life for ${deadAfterMs} ms`, {
          details: { reason: "heartbeat_missed" },
        }),
      );
    }
  }

  /** Says that the node leaves, lets calls finish for so long, then ends them. */
  async drain(options: { readonly deadlineMs: number; readonly reason: string }): Promise<void> {
    const { deadlineMs, reason } = options;
    this.say({ case: "drain", value: { deadlineMs, reason } });
    const idle = this.idle();
    const drained = new Fault("CANCELLED", "the node is being drained", { details: { reason: "draining" } });
    this.endFollowers(drained);
    const settled = new AbortController();
    void idle.then(() => settled.abort());
    const { signal } = settled;
    // Jobs that have just ended still answer; the others go on, and are left.
    if (this.callCount > 0) await this.#options.clock.sleep(lastAnswersMs, { signal }).catch(() => undefined);
    this.#streams?.leaveJobs(new Fault("NODE_OFFLINE", "the node is being drained"));
    if (this.callCount > 0) await this.#options.clock.sleep(deadlineMs, { signal }).catch(() => undefined);
    this.cancelAll(drained);
    await idle;
    // A call is over before the last of its answer has left this process; the goodbye must not overtake it.
    for (let turn = 0; turn < flushTurns; turn += 1) await setImmediate();
  }

  /** Resolves when no call runs. */
  async idle(): Promise<void> {
    await Promise.all([this.#streams?.idle(), this.#bulk?.idle()]);
  }

  /** Ends the calls that follow something, and never end by themselves. */
  endFollowers(fault: Fault): void {
    this.#streams?.endFollowers(fault);
    this.#bulk?.endFollowers(fault);
  }

  /** Ends every call that runs. */
  cancelAll(fault: Fault): void {
    this.#streams?.cancelAll(fault);
    this.#bulk?.cancelAll(fault);
  }

  /** Ends it at once; only the first fault counts. */
  end(fault: Fault): void {
    if (this.#over.signal.aborted) return;
    this.#over.abort(fault);
    this.#bulk?.end(fault);
    this.#streams?.lose(fault);
    this.#client.destroy(fault);
    this.#ended.resolve(fault);
  }

  /** Asks for a sign of life after the machine slept; without one in time the connection is over. */
  async probe(limitMs: number): Promise<void> {
    const { clock } = this.#options;
    const askedAt = clock.now();
    this.#heardAt = askedAt - 1;
    this.say({ case: "ping", value: { sequence: BigInt(askedAt) } });
    try {
      await clock.sleep(limitMs, { signal: this.#over.signal });
    } catch {
      return;
    }
    if (this.#heardAt >= askedAt) return;
    this.end(
      new Fault("GATEWAY_UNREACHABLE", "the link did not outlive the machine's sleep", {
        details: { reason: "slept" },
      }),
    );
  }

  /** Ends it with a goodbye that the gateway sees, at the latest after `timeoutMs`. */
  async close(fault: Fault, timeoutMs: number): Promise<void> {
    this.#leaving = fault;
    this.#control.end();
    await this.#options.clock.sleep(timeoutMs, { signal: this.#over.signal }).catch(() => undefined);
    this.end(fault);
  }
}

function reasonOf({ code, details }: Fault): string {
  const { reason } = details as { readonly reason?: unknown };
  return typeof reason === "string" ? reason : code.toLowerCase();
}
