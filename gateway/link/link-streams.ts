import type { Fault } from "../../shared/fault/fault.ts";
import { raceSignal, startDeadline, type Clock } from "../../shared/lifetime/clock.ts";
import type { ServerConnection, ServerRawStream } from "../../shared/rpc/raw-stream.ts";
import { readAnswerFrame } from "../../shared/rpc/reverse/frames.ts";
import { noLinkFault } from "./link-faults.ts";
import type { Link } from "./link.ts";

/** Ends a stream that belongs to no link; what still comes on it is read and dropped. */
export function refuseStream(stream: ServerRawStream): void {
  stream.onMessage(() => undefined);
  stream.onClosed(() => undefined);
  stream.end(noLinkFault(stream.connection));
}

/** How long the end of a link waits for its connections to be gone, in milliseconds; they are destroyed after 500. */
const goneWithinMs = 5_000;

/** Ends a link with its connections, and waits until they are gone, but not for ever. */
export async function endLink(link: Link, fault: Fault, clock: Clock): Promise<void> {
  // Known before the end, which lets go of it: what is under way on it is as much of the link as the rest.
  const bulk = link.bulk.side;
  link.end(fault);
  const gone = Promise.all([untilGone(link.connection), bulk ? untilGone(bulk.connection) : undefined]);
  using patience = startDeadline({ timeoutMs: goneWithinMs, clock });
  // Its authority has ended already: whoever revokes does not wait for a connection whose end is never told.
  await raceSignal(gone, patience.signal).catch(() => undefined);
}

/** Resolves once a connection is gone. */
function untilGone({ closed }: ServerConnection): Promise<void> {
  return new Promise((resolve) => {
    if (closed.aborted) resolve();
    closed.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** Whether the first frame of a stream parks it for this link. */
export function isParkedFor(link: Link, bytes: Buffer): boolean {
  try {
    const frame = readAnswerFrame(bytes);
    return frame.case === "parked" && frame.value.generation === BigInt(link.generation);
  } catch {
    return false;
  }
}
