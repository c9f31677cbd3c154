import type { ServerConnection, ServerRawStream } from "../../shared/rpc/raw-stream.ts";
import { readAnswerFrame } from "../../shared/rpc/reverse/frames.ts";
import { noHelloFault } from "./link-faults.ts";
import type { Link } from "./link.ts";

/** Ends a stream that belongs to no link; what still comes on it is read and dropped. */
export function refuseStream(stream: ServerRawStream): void {
  stream.onMessage(() => undefined);
  stream.onClosed(() => undefined);
  stream.end(noHelloFault());
}

/** Resolves once a connection is gone. */
export function untilGone({ closed }: ServerConnection): Promise<void> {
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
