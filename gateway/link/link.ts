import type { DescService } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import type { Hello } from "../../shared/gen/fairlead/v1/link_pb.ts";
import { raceSignal, startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { ServerConnection, ServerRawStream } from "../../shared/rpc/raw-stream.ts";
import { createBudget, type Budget } from "../../shared/rpc/reverse/budget.ts";
import type { Client } from "../../shared/rpc/service.ts";
import { BulkSide } from "./bulk-side.ts";
import { knownMethodsOf } from "./known-methods.ts";
import { LinkSide, type ControlAnswer, type SideOwner } from "./link-side.ts";
import type { LiveLink } from "./links.ts";
import type { NodeTally } from "./node-tally.ts";

/** Messages that a node may leave unread on its control stream. */
const maxUnsentCount = 10_000;

/** What a link is made of. */
export interface LinkParts {
  readonly nodeId: string;
  readonly alias: string;
  /** Until when its certificate is good, in milliseconds since 1970; for ever when it is not said. */
  readonly expiresAt?: number;
  readonly generation: number;
  readonly protocol: number;
  readonly hello: Hello;
  readonly control: ServerRawStream;
  readonly clock: Clock;
  /** The gateway's own budget. */
  readonly budget: Budget;
  /** What the calls of this link may have in flight of it, in bytes. */
  readonly budgetBytes: number;
  /** Counts what the node gets wrong. */
  readonly tally: NodeTally;
  /** Makes the typed clients. */
  readonly clientOf: <S extends DescService>(link: Link, service: S) => Client<S>;
}

/** A live link: its control connection, and the bulk connection while large transfers run. */
export class Link implements LiveLink {
  readonly nodeId: string;
  readonly alias: string;
  readonly generation: number;
  readonly protocol: number;
  readonly hello: Hello;
  readonly budget: Budget;
  readonly main: LinkSide;
  readonly bulk: BulkSide;
  /** Why the node takes no new calls, when it is taken out of service. */
  draining: string | undefined;
  /** The version that is installed on the machine, when another one runs. */
  installedVersion: string;
  /** When the node was heard of last, in milliseconds since 1970. */
  lastSeenMs: number;
  /** Whether anything came since the hello. */
  wasHeard = false;
  readonly #parts: LinkParts;
  readonly #owner: SideOwner;
  readonly #ended = new AbortController();
  readonly #methods: ReadonlySet<string>;
  /** What calls get whose stream breaks before the link has ended; made when the first one does. */
  #broken: Fault | undefined;
  #lost: Fault | undefined;
  #goodbye = false;
  #expiresAt: number;
  /** Only while somebody waits for a sign of life. */
  #sign: PromiseWithResolvers<void> | undefined;

  constructor(parts: LinkParts) {
    const { nodeId, alias, generation, protocol, hello, clock } = parts;
    this.#parts = parts;
    this.nodeId = nodeId;
    this.alias = alias;
    this.generation = generation;
    this.protocol = protocol;
    const { names, set } = knownMethodsOf(hello.methods);
    this.hello = { ...hello, methods: names };
    this.#methods = set;
    this.installedVersion = hello.installedVersion;
    this.lastSeenMs = clock.now();
    this.#expiresAt = parts.expiresAt ?? Infinity;
    this.budget = createBudget(parts.budgetBytes, parts.budget);
    this.#owner = {
      clock,
      onAlive: () => this.touch(),
      onDropped: () => parts.tally.dropped(),
      cancelCall: (callId, fault) =>
        this.send({ case: "cancelCall", value: { callId, fault: toWireFault(fault) } }),
      lostFault: () => this.lostFault,
    };
    this.main = new LinkSide(parts.control, this.#owner);
    this.bulk = new BulkSide({
      clock,
      signal: this.signal,
      ask: () => this.send({ case: "openBulk", value: {} }),
    });
  }

  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** The connection that the hello came over. */
  get connection(): ServerConnection {
    return this.main.connection;
  }

  /** What calls get that lose their stream: the fault that the link ended with, once it has ended. */
  get lostFault(): Fault {
    if (this.#lost) return this.#lost;
    this.#broken ??= linkLostFault(this.alias);
    return this.#broken;
  }

  /** Whether `error` is what a call of this link got because the link broke or was ended. */
  isLostFault(error: unknown): error is Fault {
    return error !== undefined && (error === this.#lost || error === this.#broken);
  }

  /** Until when its certificate is good, in milliseconds since 1970. */
  get expiresAt(): number {
    return this.#expiresAt;
  }

  /** The node renewed its certificate. */
  renewed(expiresAt: number): void {
    this.#expiresAt = Math.max(this.#expiresAt, expiresAt);
  }

  /** Whether the node said that it leaves. */
  get saidGoodbye(): boolean {
    return this.#goodbye;
  }

  /** Whether the node's version serves a method. */
  serves(path: string): boolean {
    return this.#methods.has(path);
  }

  /** Something of the node arrived. */
  touch(): void {
    this.wasHeard = true;
    this.lastSeenMs = this.#parts.clock.now();
    this.#sign?.resolve();
    this.#sign = undefined;
  }

  /** Whether anything of the node arrives within `limitMs`, or before the link ends. */
  async nextSign(limitMs: number, clock: Clock): Promise<boolean> {
    using deadline = startDeadline({ timeoutMs: limitMs, signal: this.signal, clock });
    this.#sign ??= Promise.withResolvers<void>();
    try {
      await raceSignal(this.#sign.promise, deadline.signal);
      return true;
    } catch {
      return false;
    }
  }

  /** Sends a message on the control stream of the control connection. */
  send(kind: ControlAnswer): void {
    if (this.main.unsentCount > maxUnsentCount) this.end(unreadFault(this.alias));
    else this.main.send(kind);
  }

  /** Calls with a deadline that run on it. */
  get busyCount(): number {
    return this.main.pool.busyCount + (this.bulk.side?.pool.busyCount ?? 0);
  }

  /** Whether it carries a call. */
  carries(callId: string): boolean {
    return this.main.pool.carries(callId) || this.bulk.side?.pool.carries(callId) === true;
  }

  /** Ends every call that it carries, on the node too. */
  cancelCalls(fault: Fault): void {
    this.main.pool.cancelAll(fault);
    this.bulk.side?.pool.cancelAll(fault);
  }

  /** The node leaves on purpose. */
  startGoodbye(reason: string): void {
    this.#goodbye = true;
    this.draining ??= reason;
  }

  /** The node opened the bulk connection. */
  openBulk(control: ServerRawStream): LinkSide {
    const side = new LinkSide(control, this.#owner);
    this.bulk.opened(side);
    return side;
  }

  client<S extends DescService>(service: S): Client<S> {
    return this.#parts.clientOf(this, service);
  }

  /** Ends it: calls that are not over hear of the fault, and its connections are gone soon. Only the first fault counts. */
  end(fault: Fault): void {
    if (this.signal.aborted) return;
    this.#lost = fault;
    this.#ended.abort(fault);
    // A node that said goodbye is told nothing but that it was heard.
    const said = this.#goodbye ? undefined : fault;
    this.main.end(said);
    this.bulk.side?.end(said);
  }
}

function unreadFault(alias: string): Fault {
  return new Fault("NODE_OFFLINE", `${alias} does not read its control stream`, {
    details: { node: alias, reason: "control_unread" },
  });
}

/** What calls fail with whose link broke. */
export function linkLostFault(alias: string): Fault {
  return new Fault("NODE_OFFLINE", `the link to ${alias} broke`, {
    details: { node: alias, reason: "link_lost" },
  });
}
