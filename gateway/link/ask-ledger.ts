import { isFault, type Fault } from "../../shared/fault/fault.ts";
import { Node, OutcomeState, type Hello } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import { keepOutcomeMs } from "../../shared/rpc/limits.ts";
import type { LiveLink } from "./links.ts";
import type { NodeState } from "./node-state.ts";

/** A call that lost the link it was dispatched on. */
export interface LostCall {
  readonly callId: string;
  /** When it was made, in milliseconds since 1970. */
  readonly sentAt: number;
  /** The hello of the link that it was sent over. */
  readonly hello: Pick<Hello, "bootId" | "ledgerId">;
}

/** How a lost call stands at its node. */
export type Standing =
  | { readonly kind: "running"; readonly link: LiveLink }
  | {
      readonly kind: "ended";
      readonly link: LiveLink;
      readonly fault: Fault | undefined;
      readonly messages: readonly Uint8Array[];
    }
  /** It never ran, and never will. */
  | { readonly kind: "never_began" }
  /** Nobody knows, and nobody will. */
  | { readonly kind: "unknown" };

/** What the ledger is asked with. */
export interface AskOptions {
  readonly node: Pick<NodeState, "link" | "nextLink">;
  readonly clock: Clock;
  /** Ends the asking; it rejects with the signal's reason. */
  readonly signal: AbortSignal;
  /** Asks on while the call runs. */
  readonly untilEnded: boolean;
}

/** Asks again after so long, in milliseconds. */
const pollMs = 200;

/** How long the answer to one question may take, in milliseconds; a link that broke meanwhile is not waited for longer. */
const questionMs = 20_000;

/** Asks the node's ledger how a call stands, as soon and as often as the node is there to be asked. */
export async function askLedger(call: LostCall, options: AskOptions): Promise<Standing> {
  const { node, clock, signal } = options;
  for (;;) {
    // An offline node may be back with the outcome; until the signal nobody knows better.
    const link = await node.nextLink({ bearsOffline: true, signal });
    const asked = await link
      .client(Node)
      .getOutcome({ callId: call.callId }, { deadlineMs: questionMs, signal })
      .catch((error: unknown) => {
        if (signal.aborted || isFault(error, "VERSION_UNSUPPORTED")) throw error;
      });
    if (asked?.state === OutcomeState.ENDED) {
      const { fault, messages } = asked;
      return { kind: "ended", link, fault: fault && fromWireFault(fault), messages };
    }
    if (asked?.state === OutcomeState.UNKNOWN)
      return { kind: knowsAll(call, options) ? "never_began" : "unknown" };
    if (asked?.state === OutcomeState.RUNNING && !options.untilEnded) return { kind: "running", link };
    await clock.sleep(pollMs, { signal });
  }
}

/**
 * Whether the ledger that was asked would know the call if it had begun: it is the one of the node that the call was sent
 * to, and the call is too young to be forgotten. The question may have gone on over a later link than the one at hand.
 */
function knowsAll({ hello, sentAt }: LostCall, { node, clock }: AskOptions): boolean {
  const now = node.link?.hello;
  if (!now || clock.now() - sentAt >= keepOutcomeMs) return false;
  return hello.ledgerId === "" ? now.bootId === hello.bootId : now.ledgerId === hello.ledgerId;
}
