import { create, type DescMethod, type DescService } from "@bufbuild/protobuf";
import type { Standing } from "../../gateway/link/ask-ledger.ts";
import type { LiveLink, Links, NodeFacts, Presence } from "../../gateway/link/links.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { createQueue } from "../../shared/flow/queue.ts";
import { HelloSchema } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { CallContext, CallOptions, Client, ServedService } from "../../shared/rpc/service.ts";

/** A node that is joined to a gateway's part without any wire: its services are called as they are. */
export interface DirectNode {
  readonly nodeId: string;
  readonly services: readonly ServedService[];
}

/** Links to nodes of this process. A test connects and disconnects them. */
export interface DirectLinks extends Links {
  /** Links a node; an earlier link of it ends first. */
  connect(node: DirectNode): LiveLink;
  /** Ends a node's link, as when its machine goes away. */
  disconnect(nodeId: string): void;
  /** Full names of the methods that were called, in order. */
  readonly calls: readonly string[];
}

/** Links without any node yet. */
export function createDirectLinks(): DirectLinks {
  return new InProcessLinks();
}

interface Held {
  readonly link: LiveLink;
  readonly ending: AbortController;
}

class InProcessLinks implements DirectLinks {
  readonly calls: string[] = [];
  readonly #held = new Map<string, Held>();
  readonly #listeners = new Set<(presence: Presence) => void>();
  #generation = 0;

  connect(node: DirectNode): LiveLink {
    this.disconnect(node.nodeId);
    this.#generation += 1;
    const ending = new AbortController();
    const link: LiveLink = {
      nodeId: node.nodeId,
      generation: this.#generation,
      hello: create(HelloSchema, { bootId: "direct" }),
      signal: ending.signal,
      client: (service) => this.#client(node, { service, signal: ending.signal }),
    };
    this.#held.set(node.nodeId, { link, ending });
    this.#tell(node.nodeId);
    return link;
  }

  disconnect(nodeId: string): void {
    const held = this.#held.get(nodeId);
    if (!held) return;
    this.#held.delete(nodeId);
    held.ending.abort(offline(nodeId));
    this.#tell(nodeId);
  }

  find(nodeId: string): LiveLink | undefined {
    return this.#held.get(nodeId)?.link;
  }

  get(nodeId: string): LiveLink {
    const link = this.find(nodeId);
    if (link) return link;
    throw offline(nodeId);
  }

  presence(nodeId: string): Presence {
    const link = this.find(nodeId);
    return {
      nodeId,
      state: link ? "online" : "offline",
      sinceMs: 0,
      reason: link ? "linked" : "link_lost",
      generation: link?.generation ?? 0,
      lastSeenMs: 0,
      address: "",
      hello: link?.hello,
    };
  }

  async *changes(options: { readonly signal: AbortSignal }): AsyncIterable<Presence> {
    const queue = createQueue<Presence>(1000);
    const listen = (presence: Presence): void => void queue.push(presence);
    const stop = (): void => queue.close(options.signal.reason);
    this.#listeners.add(listen);
    options.signal.addEventListener("abort", stop, { once: true });
    try {
      for (const nodeId of this.#held.keys()) yield this.presence(nodeId);
      yield* queue;
    } finally {
      this.#listeners.delete(listen);
      options.signal.removeEventListener("abort", stop);
    }
  }

  facts(): NodeFacts {
    return {
      protocol: 3,
      upgrade: undefined,
      installedVersion: "",
      droppedCount: 0,
      timedOut: [],
      drain: undefined,
    };
  }

  /** Nothing is lost here that could be asked about. */
  async standing(): Promise<Standing> {
    return { kind: "unknown" };
  }

  endJob(): void {
    // Nobody leaves a job behind without a wire.
  }

  async end(nodeId: string): Promise<void> {
    this.disconnect(nodeId);
  }

  #tell(nodeId: string): void {
    for (const listen of this.#listeners) listen(this.presence(nodeId));
  }

  #client<S extends DescService>(
    node: DirectNode,
    call: { readonly service: S; readonly signal: AbortSignal },
  ): Client<S> {
    const served = node.services.find(({ service }) => service.typeName === call.service.typeName);
    const methods = call.service.methods.map((method) => [
      method.localName,
      (request: Message, options: CallOptions = {}) => {
        this.calls.push(`${call.service.typeName}/${method.name}`);
        const implementation = served?.implementation[method.localName];
        if (!implementation) throw new Fault("VERSION_UNSUPPORTED", `the node does not serve ${method.name}`);
        const signal = AbortSignal.any([call.signal, ...(options.signal ? [options.signal] : [])]);
        const context = toContext(signal, options);
        const input = create(method.input, request);
        return method.methodKind === "unary"
          ? answerOnce({ method, signal }, () => (implementation as Unary)(input, context))
          : answerAll({ method, signal }, () => (implementation as Stream)(input, context));
      },
    ]);
    return Object.fromEntries(methods) as Client<S>;
  }
}

type Message = Record<string, unknown>;
type Unary = (request: object, context: CallContext) => Promise<Message>;
type Stream = (request: object, context: CallContext) => AsyncIterable<Message>;

interface Answered {
  readonly method: DescMethod;
  readonly signal: AbortSignal;
}

async function answerOnce({ method, signal }: Answered, run: () => Promise<Message>): Promise<object> {
  signal.throwIfAborted();
  return create(method.output, await run());
}

async function* answerAll(
  { method, signal }: Answered,
  run: () => AsyncIterable<Message>,
): AsyncIterable<object> {
  signal.throwIfAborted();
  for await (const message of run()) {
    signal.throwIfAborted();
    yield create(method.output, message);
  }
}

function toContext(signal: AbortSignal, options: CallOptions): CallContext {
  return {
    signal,
    callId: options.callId ?? "direct",
    remainingMs: options.deadlineMs ?? 60_000,
    metadata: new Map(),
    peer: { address: "" },
  };
}

function offline(nodeId: string): Fault {
  return new Fault("NODE_OFFLINE", `the node ${nodeId} is offline`, {
    details: { state: "offline", reason: "link_lost" },
  });
}
