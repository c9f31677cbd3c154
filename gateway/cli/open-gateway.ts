import { lstat, readFile } from "node:fs/promises";
import { connect } from "node:net";
import path from "node:path";
import type { DescService } from "@bufbuild/protobuf";
import { errnoOf } from "../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { startDeadline } from "../../shared/lifetime/clock.ts";
import { defaultDeadlineMs, maxDeadlineMs } from "../../shared/rpc/deadline.ts";
import { openGrpcClient } from "../../shared/rpc/grpc-client.ts";
import type { CallOptions, Client } from "../../shared/rpc/service.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { noWaitHeader, workTimeHeader } from "../files/asking-headers.ts";

/** A gateway that a command talks to. Disposing closes the connection. */
export interface OpenGateway extends AsyncDisposable {
  /** A typed client of one of its services. */
  client<S extends DescService>(service: S): Client<S>;
  /** Options of every call: the signal of the command, and the deadline that was asked for. */
  call(): CallOptions;
}

/** What is read of the process. */
export type GatewayRuntime = Pick<
  Runtime,
  "home" | "environment" | "gatewayUrl" | "signal" | "deadlineMs" | "asking"
>;

/** Longer than a person is ever waited for, in milliseconds. */
export const askingMs = 660_000;

/** How long the local socket may take to answer, in milliseconds. */
const connectTimeoutMs = 4_000;

/**
 * Connects to the gateway of this home over its socket. `GATEWAY_UNREACHABLE` when none answers; a gateway named by URL
 * is refused with `INVALID_ARGUMENT`: only the local one can be reached.
 */
export async function openGateway(runtime: GatewayRuntime): Promise<OpenGateway> {
  const url = runtime.gatewayUrl ?? runtime.environment.gateway;
  if (url !== undefined) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `the gateway ${url} is remote; this version talks to the local one only`,
      {
        hint: "run the command on the gateway's machine, without --gateway and FAIRLEAD_GATEWAY",
        details: { field: "gateway" },
      },
    );
  }
  const socket = await findAdminSocket(runtime.home.gatewayDir);
  await assertAnswers(socket, runtime);
  const connection = openGrpcClient({
    address: `unix:${socket}`,
    security: "insecure",
    connectTimeoutMs,
    metadata: askingHeaders(runtime),
  });
  return {
    client: (service) => connection.client(service),
    call: () => ({ signal: runtime.signal, ...deadlineOf(runtime) }),
    [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose](),
  };
}

/** The gateway holds the time of the work itself: that of the person who may be asked before it comes on top. */
function deadlineOf({ deadlineMs, asking }: GatewayRuntime): Pick<CallOptions, "deadlineMs"> {
  if (!asking || asking.noWait) return deadlineMs === undefined ? {} : { deadlineMs };
  return { deadlineMs: Math.min((deadlineMs ?? defaultDeadlineMs) + askingMs, maxDeadlineMs) };
}

function askingHeaders({ deadlineMs, asking }: GatewayRuntime): Readonly<Record<string, string>> {
  if (!asking) return {};
  return {
    [workTimeHeader]: String(deadlineMs ?? defaultDeadlineMs),
    ...(asking.noWait ? { [noWaitHeader]: "1" } : {}),
  };
}

/** The socket of the gateway in a folder; a path too long for a socket is kept in a file beside it. */
export async function findAdminSocket(gatewayDir: string): Promise<string> {
  try {
    return (await readFile(path.join(gatewayDir, "admin.sock.path"), "utf8")).trim();
  } catch (error) {
    if (errnoOf(error) === undefined) throw error;
    return path.join(gatewayDir, "admin.sock");
  }
}

/** Knocks, so that the answer to the commonest mistake is quick and names its remedy. */
async function assertAnswers(socket: string, runtime: GatewayRuntime): Promise<void> {
  try {
    // The short path of a long home lies where others may write: only our own socket is trusted.
    const { uid } = await lstat(socket);
    const own = process.getuid?.();
    if (own !== undefined && uid !== own && uid !== 0 && own !== 0) {
      throw new Fault("POLICY_DENIED", `the socket ${socket} belongs to another user`, {
        details: { side: "gateway", rule: "socket.owner" },
      });
    }
    await knock(socket, runtime.signal);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === undefined) throw error;
    throw new Fault("GATEWAY_UNREACHABLE", `no gateway answers in ${runtime.home.dir}`, {
      hint: "fairlead gateway run",
      details: { reason: errno === "ENOENT" ? "not_running" : "connection_refused", errno },
      cause: error,
    });
  }
}

async function knock(socket: string, outer: AbortSignal): Promise<void> {
  using deadline = startDeadline({ timeoutMs: connectTimeoutMs, signal: outer });
  const { signal } = deadline;
  await new Promise<void>((resolve, reject) => {
    const opened = connect({ path: socket, signal });
    opened.once("connect", () => {
      opened.destroy();
      resolve();
    });
    opened.once("error", (error) => reject(signal.aborted ? signal.reason : error));
  });
}
