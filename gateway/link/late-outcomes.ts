import { createBackoff } from "../../shared/lifetime/backoff.ts";
import { startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import { keepOutcomeMs } from "../../shared/rpc/limits.ts";
import { askLedger, type LostCall } from "./ask-ledger.ts";
import type { NodeState } from "./node-state.ts";

/** A call whose time passed while its node had it. */
export interface LateCall extends LostCall {
  /** The full name: `/fairlead.v1.Files/Write`. */
  readonly path: string;
}

/** A result that came after its call's deadline, and went to nobody. */
export interface LateResult {
  readonly nodeId: string;
  readonly callId: string;
  readonly path: string;
}

/** What the following of late calls stands on. */
export interface LateOutcomesOptions {
  readonly clock: Clock;
  /** Ends all of it. */
  readonly signal: AbortSignal;
  readonly onLate: ((result: LateResult) => void) | undefined;
}

/** Calls that are followed at once at the most; one more is let go, and its outcome can still be asked for. */
const maxFollowed = 256;

/**
 * Follows calls that run at most once and whose caller's time passed: what became of them is asked of their node's
 * ledger for as long as it keeps it. A result is told once; a call that ended with its deadline, as it should, is not.
 */
export class LateOutcomes {
  readonly #options: LateOutcomesOptions;
  #followedCount = 0;

  constructor(options: LateOutcomesOptions) {
    this.#options = options;
  }

  /** Follows one call, until it is known how it ended. */
  async follow(call: LateCall, node: NodeState): Promise<void> {
    if (this.#followedCount >= maxFollowed) return;
    this.#followedCount += 1;
    const { clock, onLate } = this.#options;
    using deadline = startDeadline({ timeoutMs: keepOutcomeMs, signal: this.#options.signal, clock });
    try {
      if (await this.#hasResult(call, node, deadline.signal)) {
        onLate?.({ nodeId: node.nodeId, callId: call.callId, path: call.path });
      }
    } catch {
      // Nobody knows, and nobody will; the caller was told so.
    } finally {
      this.#followedCount -= 1;
    }
  }

  async #hasResult(call: LateCall, node: NodeState, signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#options;
    const backoff = createBackoff({ firstMs: 400, maxMs: 20_000 });
    for (;;) {
      const standing = await askLedger(call, { node, clock, signal, untilEnded: false });
      if (standing.kind !== "running") return standing.kind === "ended" && standing.fault === undefined;
      await clock.sleep(backoff.next(), { signal });
    }
  }
}
