import { Fault, isFault } from "../../../shared/fault/fault.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import type { Clock } from "../../../shared/lifetime/clock.ts";
import type { CallOptions, Client } from "../../../shared/rpc/service.ts";
import type { Runtime } from "../../../shared/terminal/runtime.ts";
import { openGateway, type OpenGateway } from "../open-gateway.ts";

/** How long it is waited before a lost workspace is looked for, in milliseconds: doubled up to the second number. */
const lookAfterMs = [100, 1_000] as const;

/** A connection to the gateway that can be made anew. Disposing closes it. */
export interface Line extends AsyncDisposable {
  /** The files of its nodes, over the connection there is now. */
  readonly files: Client<typeof Files>;
  /** Another connection in place of this one; faults as `openGateway`. */
  renew(): Promise<void>;
}

/** Opens a line; faults as `openGateway`. */
export async function openLine(runtime: Runtime): Promise<Line> {
  let gateway: OpenGateway = await openGateway(runtime);
  return {
    get files() {
      return gateway.client(Files);
    },
    renew: async () => {
      const next = await openGateway(runtime);
      const old = gateway;
      gateway = next;
      await old[Symbol.asyncDispose]();
    },
    [Symbol.asyncDispose]: () => gateway[Symbol.asyncDispose](),
  };
}

/** What going on takes. */
export interface GoOnOptions {
  /** The workspace that the transfer is with. */
  readonly workspace: string;
  readonly line: Line;
  readonly call: CallOptions & { readonly signal: AbortSignal };
  readonly clock: Clock;
  /** Whether the transfer had begun. */
  readonly hasMoved: () => boolean;
  /** What may have taken effect is done again as well: a tree is compared with what stands there. */
  readonly comparesAgain?: boolean;
  /** Hears of a loss that is waited for. */
  readonly onLost: (fault: Fault) => void;
}

/** As `Transfer.goOn` says. */
export async function goOn<T>(attempt: () => Promise<T>, options: GoOnOptions): Promise<T> {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (options.call.signal.aborted || !options.hasMoved()) throw error;
      const isUnknown = options.comparesAgain === true && isFault(error, "OUTCOME_UNKNOWN");
      if (!isUnknown && !isLost(error)) throw error;
      options.onLost(error);
      await untilBack(options).catch((end: unknown) => {
        throw isFault(end, "DEADLINE_EXCEEDED") ? waitedInVain(end, error) : end;
      });
    }
  }
}

/** Whoever waited in vain learns what is away, and not only that time has passed. */
function waitedInVain(end: Fault, lost: Fault): Fault {
  return new Fault("DEADLINE_EXCEEDED", `${end.message}; ${lost.message}`, {
    details: { ...lost.details, lost: lost.code, ...end.details },
    ...(lost.hint === undefined ? {} : { hint: lost.hint }),
    cause: lost,
  });
}

/** Whether node or gateway was lost; what is refused, and what may have taken effect, is no loss. */
export function isLost(error: unknown): error is Fault {
  if (!isFault(error)) return false;
  const { reason, publication } = error.details;
  if (publication !== undefined && publication !== "unattempted") return false;
  if (isFault(error, "WORKSPACE_ACCESS_UNAVAILABLE"))
    return reason === "node_offline" || reason === "draining";
  return isFault(error, "NODE_OFFLINE") || isFault(error, "GATEWAY_UNREACHABLE");
}

/** Resolves once the workspace can be used, over a new connection; the signal of the call ends the waiting. */
export async function untilBack({
  workspace,
  line,
  call,
  clock,
}: Pick<GoOnOptions, "workspace" | "line" | "call" | "clock">): Promise<void> {
  const [first, longest] = lookAfterMs;
  for (let waitMs: number = first; ; waitMs = Math.min(waitMs * 2, longest)) {
    await clock.sleep(waitMs, { signal: call.signal });
    try {
      await line.renew();
      await line.files.stat({ workspace, path: "" }, call);
      return;
    } catch (error) {
      // Only the root itself may be closed to this user: the workspace is there.
      if (isFault(error, "POLICY_DENIED")) return;
      if (call.signal.aborted || !isLost(error)) throw error;
    }
  }
}
