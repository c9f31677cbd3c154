import { Tools } from "../../shared/gen/fairlead/v1/tools_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { LiveLink, OwedEnd } from "./links.ts";

/** Ends that are owed to one node; the oldest is dropped for one more, as its own deadline ends that job. */
const maxOwed = 1_000;

/** The ends of jobs that nodes are to be told of once they are there again. */
export class OwedEnds {
  readonly #clock: Clock;
  readonly #owed = new Map<string, Map<string, OwedEnd>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Owes the node of `link`, or the node once it is linked, the end of a job. */
  owe(nodeId: string, job: OwedEnd, link: LiveLink | undefined): void {
    const owed = this.#owed.get(nodeId) ?? new Map<string, OwedEnd>();
    this.#owed.set(nodeId, owed);
    owed.set(job.callId, job);
    if (owed.size > maxOwed) for (const oldest of owed.keys()) return void owed.delete(oldest);
    if (link) void this.pay(link);
  }

  /** Tells a node that is linked now; what does not get through stays owed. */
  async pay(link: LiveLink): Promise<void> {
    const owed = this.#owed.get(link.nodeId);
    if (!owed) return;
    for (const job of owed.values()) {
      if (this.#clock.now() < job.untilMs && !(await tell(link, job))) continue;
      if (owed.get(job.callId) === job) owed.delete(job.callId);
    }
    if (owed.size === 0 && this.#owed.get(link.nodeId) === owed) this.#owed.delete(link.nodeId);
  }
}

async function tell(link: LiveLink, { callId, fault }: OwedEnd): Promise<boolean> {
  try {
    await link.client(Tools).endJob({ callId, reason: toWireFault(fault) });
    return true;
  } catch {
    // A node that answered and does not know the job has ended it long ago.
    return !link.signal.aborted;
  }
}
