import { Fault } from "../../shared/fault/fault.ts";
import type { Duty } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { AnsweredCall } from "../../shared/rpc/reverse/answerer.ts";

/** What following the administrator's drains needs. */
export interface DutyOptions {
  readonly clock: Clock;
  /** Every call that runs here. */
  readonly running: ReadonlySet<AnsweredCall>;
  /** Ends the jobs that run without a call. */
  readonly endJobs?: ((fault: Fault) => void) | undefined;
  /** Aborts when the link is over for good. */
  readonly signal: AbortSignal;
}

/** Whether the node is in service; what still runs at a drain's deadline is ended here too. */
export class DutyRoster {
  readonly #options: DutyOptions;
  #pending = new AbortController();
  #drain: Duty | undefined;

  constructor(options: DutyOptions) {
    this.#options = options;
  }

  /** The drain, while there is one. */
  get drain(): Duty | undefined {
    return this.#drain;
  }

  /** The gateway said whether the node is in service; nothing said means that it is. */
  follow(duty: Duty | undefined): void {
    this.#pending.abort();
    this.#pending = new AbortController();
    this.#drain = duty?.drained === true ? duty : undefined;
    if (this.#drain)
      void this.#endCalls(this.#drain, AbortSignal.any([this.#pending.signal, this.#options.signal]));
  }

  async #endCalls({ deadlineMs }: Duty, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.clock.sleep(Number(deadlineMs), { signal });
    } catch {
      return;
    }
    const fault = new Fault("CANCELLED", "the node is drained, and the time for what ran on it is over", {
      details: { reason: "draining" },
    });
    for (const call of this.#options.running) call.cancel(fault);
    this.#options.endJobs?.(fault);
  }
}
