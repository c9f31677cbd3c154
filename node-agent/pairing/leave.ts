import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { isFault, type Fault } from "../../shared/fault/fault.ts";
import { Pairing } from "../../shared/gen/fairlead/v1/pairing_pb.ts";
import { raceSignal, startDeadline, systemClock, type Clock } from "../../shared/lifetime/clock.ts";
import { openGrpcClient } from "../../shared/rpc/grpc-client.ts";
import { eraseIdentity, loadIdentity, type NodeIdentity } from "./identity.ts";
import { dialTls } from "./tls.ts";

/** What `leaveGateway` takes. */
export interface LeaveOptions {
  /** The node's folder; held by the caller with `lockHome`. */
  readonly dir: string;
  /** Tells the gateway; by default over a connection of its own, at the first address that answers. */
  readonly tellGateway?: (signal: AbortSignal) => Promise<void>;
  readonly clock?: Clock;
  readonly signal?: AbortSignal;
  /** Most time that telling the gateway may take, in milliseconds; 15 s by default. */
  readonly timeoutMs?: number;
}

/** How leaving ended; the identity is gone in every case. */
export interface LeaveOutcome {
  /** Who the machine was; empty when that could not be read any more. */
  readonly nodeId: string;
  /** Whether the gateway has revoked the node; if not, an administrator has to. */
  readonly told: boolean;
  /** Why the gateway could not be told. */
  readonly fault?: Fault;
}

/** Tells the gateway to revoke this node, and erases key and certificate whether or not it heard. */
export async function leaveGateway(options: LeaveOptions): Promise<LeaveOutcome> {
  const { clock = systemClock, timeoutMs = 15_000 } = options;
  let nodeId = "";
  let fault: Fault | undefined;
  try {
    const identity = await loadIdentity(options.dir);
    nodeId = identity.nodeId;
    using deadline = startDeadline({ timeoutMs, signal: options.signal, clock });
    const tell = options.tellGateway ?? ((signal) => tellGateway(identity, { clock, timeoutMs, signal }));
    await raceSignal(tell(deadline.signal), deadline.signal);
  } catch (error) {
    fault = faultFromError(error);
  }
  await eraseIdentity(options.dir);
  return fault && !isOverAlready(fault) ? { nodeId, told: false, fault } : { nodeId, told: true };
}

/** To a gateway that has no such node there is nothing left to say. */
function isOverAlready(fault: Fault): boolean {
  return fault.code === "IDENTITY_REVOKED" || fault.code === "IDENTITY_UNKNOWN";
}

interface Telling {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

async function tellGateway(identity: NodeIdentity, { clock, timeoutMs, signal }: Telling): Promise<void> {
  const connectTimeoutMs = Math.floor(timeoutMs / identity.addresses.length);
  let last: unknown;
  for (const address of identity.addresses) {
    await using client = openGrpcClient({
      address,
      security: () => dialTls(identity, clock),
      connectTimeoutMs,
      clock,
    });
    try {
      await client.client(Pairing).leave({}, { signal, deadlineMs: timeoutMs });
      return;
    } catch (error) {
      last = error;
      if (!isFault(error, "GATEWAY_UNREACHABLE") && !isFault(error, "PIN_MISMATCH")) break;
    }
  }
  throw last;
}
