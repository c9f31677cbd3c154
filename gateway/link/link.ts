import { create, toBinary, type DescService, type MessageInitShape } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import { NodeLinkControlResponseSchema, type Hello } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { encodedOf } from "../../shared/rpc/encoded.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { ServerConnection, ServerRawStream } from "../../shared/rpc/raw-stream.ts";
import { createBudget, type Budget } from "../../shared/rpc/reverse/budget.ts";
import type { Client } from "../../shared/rpc/service.ts";
import type { LiveLink } from "./links.ts";
import { ServeStream, type StreamOwner } from "./serve-stream.ts";
import { StreamPool } from "./stream-pool.ts";

/** Bytes that the calls of one link may have in flight, each way. */
export const linkBudgetBytes: number = 64 * 1024 * 1024;

/** What a link is made of. */
export interface LinkParts {
  readonly nodeId: string;
  readonly alias: string;
  readonly generation: number;
  readonly protocol: number;
  readonly hello: Hello;
  readonly control: ServerRawStream;
  readonly clock: Clock;
  /** The gateway's own budget. */
  readonly budget: Budget;
  /** Makes the typed clients. */
  readonly clientOf: <S extends DescService>(link: Link, service: S) => Client<S>;
}

type ControlMessage = MessageInitShape<typeof NodeLinkControlResponseSchema>["kind"];

/** A live link: its control stream, its connections and their parked streams. */
export class Link implements LiveLink {
  readonly nodeId: string;
  readonly alias: string;
  readonly generation: number;
  readonly protocol: number;
  readonly hello: Hello;
  readonly budget: Budget;
  readonly pool: StreamPool;
  /** Whether the node, or whoever administers it, takes it out of service. */
  draining: string | undefined;
  /** When the node was heard of last, in milliseconds since 1970. */
  lastSeenMs: number;
  readonly #parts: LinkParts;
  readonly #ended = new AbortController();
  readonly #methods: ReadonlySet<string>;
  readonly #broken: Fault;
  #lost: Fault;
  #goodbye = false;

  constructor(parts: LinkParts) {
    this.#parts = parts;
    this.nodeId = parts.nodeId;
    this.alias = parts.alias;
    this.#broken = linkLostFault(parts.alias);
    this.#lost = this.#broken;
    this.generation = parts.generation;
    this.protocol = parts.protocol;
    this.hello = parts.hello;
    this.lastSeenMs = parts.clock.now();
    this.budget = createBudget(linkBudgetBytes, parts.budget);
    this.#methods = new Set(parts.hello.methods);
    this.pool = new StreamPool({
      clock: parts.clock,
      signal: this.signal,
      askFor: (target) => this.send({ case: "moreStreams", value: { target } }),
    });
  }

  get signal(): AbortSignal {
    return this.#ended.signal;
  }

  /** The connection that the hello came over. */
  get connection(): ServerConnection {
    return this.#parts.control.connection;
  }

  /** What calls get that lose their stream: the fault that the link ended with, once it has ended. */
  get lostFault(): Fault {
    return this.#lost;
  }

  /** Whether `error` is what a call of this link got because the link broke or was ended. */
  isLostFault(error: unknown): error is Fault {
    return error === this.#lost || error === this.#broken;
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
    this.lastSeenMs = this.#parts.clock.now();
  }

  /** Sends a message on the control stream. */
  send(kind: ControlMessage): void {
    if (this.signal.aborted || !kind) return;
    const message = create(NodeLinkControlResponseSchema, { kind });
    this.#parts.control.write(encodedOf(toBinary(NodeLinkControlResponseSchema, message)));
  }

  /** The node leaves on purpose. */
  startGoodbye(reason: string): void {
    this.#goodbye = true;
    this.draining ??= reason;
  }

  /** Takes a parked stream that the node opened on this link. */
  accept(raw: ServerRawStream): ServeStream {
    const owner: StreamOwner = {
      onFree: (stream) => this.pool.onFree(stream),
      onGone: (stream) => this.pool.onGone(stream),
      cancelCall: (callId, fault) => {
        this.send({ case: "cancelCall", value: { callId, fault: toWireFault(fault) } });
      },
      onAlive: () => this.touch(),
      lostFault: () => this.lostFault,
    };
    return new ServeStream(raw, owner);
  }

  client<S extends DescService>(service: S): Client<S> {
    return this.#parts.clientOf(this, service);
  }

  /** Ends it: calls that are not over hear of the fault, and the connection is gone soon. Only the first fault counts. */
  end(fault: Fault): void {
    if (this.signal.aborted) return;
    this.#lost = fault;
    this.#ended.abort(fault);
    this.pool.lose();
    this.#parts.control.end(fault);
    void destroySoon(this.connection, this.#parts.clock);
  }
}

/** How long a peer has to take the status that ends its link, in milliseconds. */
const lastWordMs = 500;

/** Ends a connection once its peer has had the time to read why. */
export async function destroySoon(connection: ServerConnection, clock: Clock): Promise<void> {
  await clock.sleep(lastWordMs, { signal: connection.closed }).catch(() => undefined);
  connection.destroy();
}

/** What calls fail with whose link broke. */
export function linkLostFault(alias: string): Fault {
  return new Fault("NODE_OFFLINE", `the link to ${alias} broke`, {
    details: { node: alias, reason: "link_lost" },
  });
}
