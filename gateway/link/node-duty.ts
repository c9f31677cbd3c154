import type { MessageInitShape } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import type { DutySchema } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { NodeDrain } from "./links.ts";
import type { NodeState } from "./node-state.ts";

/** What keeping nodes out of service needs. */
export interface NodeDutyOptions {
  readonly clock: Clock;
  /** Aborts when the gateway ends. */
  readonly signal: AbortSignal;
}

/** Takes nodes out of service and back: what is kept of it is kept by whoever calls. */
export class NodeDuty {
  readonly #options: NodeDutyOptions;
  readonly #pending = new Map<NodeState, AbortController>();
  readonly #untold = new Set<NodeState>();

  constructor(options: NodeDutyOptions) {
    this.#options = options;
    options.signal.addEventListener("abort", () => {
      for (const pending of this.#pending.values()) pending.abort();
    });
  }

  /** No new call reaches the node from now on; what runs on it ends at the drain's deadline. */
  drain(node: NodeState, drain: NodeDrain): void {
    node.drain = drain;
    if (node.link) node.link.draining ??= "drained";
    node.drains("drained");
    this.#tell(node);
    void this.#endCalls(node, drain, this.#replace(node).signal);
  }

  /** The node takes calls again. */
  undrain(node: NodeState): void {
    if (!node.drain) return;
    node.drain = undefined;
    this.#replace(node);
    this.#pending.delete(node);
    const { link } = node;
    if (link?.draining !== "drained") return;
    link.draining = undefined;
    node.serves();
    this.#tell(node);
  }

  /** One message a turn, with what holds at its end. */
  #tell(node: NodeState): void {
    if (this.#untold.has(node)) return;
    this.#untold.add(node);
    queueMicrotask(() => {
      this.#untold.delete(node);
      node.link?.send({ case: "duty", value: this.saidTo(node) });
    });
  }

  /** What the node is told of it. */
  saidTo({ drain }: NodeState): MessageInitShape<typeof DutySchema> {
    if (!drain) return { drained: false };
    return {
      drained: true,
      deadlineMs: BigInt(Math.max(0, Math.round(drain.deadlineMs - this.#options.clock.now()))),
      untilMs: BigInt(drain.untilMs ?? 0),
      note: drain.note,
    };
  }

  #replace(node: NodeState): AbortController {
    this.#pending.get(node)?.abort();
    const pending = new AbortController();
    this.#pending.set(node, pending);
    return pending;
  }

  async #endCalls(node: NodeState, drain: NodeDrain, signal: AbortSignal): Promise<void> {
    const { clock } = this.#options;
    try {
      await clock.sleep(Math.max(0, drain.deadlineMs - clock.now()), { signal });
    } catch {
      return;
    }
    node.link?.cancelCalls(drainedFault(node.link.alias));
  }
}

/** What a call ends with that still runs when its node's drain is over. */
function drainedFault(alias: string): Fault {
  return new Fault("CANCELLED", `${alias} was drained, and the time for what ran on it is over`, {
    details: { node: alias, reason: "draining" },
  });
}
