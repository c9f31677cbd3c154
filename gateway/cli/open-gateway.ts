import { lstat } from "node:fs/promises";
import { connect } from "node:net";
import type { DescService } from "@bufbuild/protobuf";
import { errnoOf } from "../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { judgeGateway } from "../../shared/identity/gateway-peer.ts";
import { startDeadline } from "../../shared/lifetime/clock.ts";
import { defaultDeadlineMs, maxDeadlineMs } from "../../shared/rpc/deadline.ts";
import { type GrpcClient, openGrpcClient } from "../../shared/rpc/grpc-client.ts";
import type { CallOptions, Client } from "../../shared/rpc/service.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { noWaitHeader, workTimeHeader } from "../files/asking-headers.ts";
import { chooseGateway, type LocalGateway, type RemoteGateway } from "./choose-gateway.ts";
import { findAdminSocket } from "./find-admin-socket.ts";

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
  "home" | "environment" | "gatewayUrl" | "signal" | "deadlineMs" | "asking" | "clock"
>;

/** Longer than a person is ever waited for, in milliseconds. */
export const askingMs = 660_000;

/** How long the local socket may take to answer, in milliseconds. */
const connectTimeoutMs = 4_000;

/**
 * Connects to the gateway that a command is for, as `chooseGateway` finds it, with its faults. `GATEWAY_UNREACHABLE` when
 * the local one does not answer; a remote one is dialled by the first call.
 */
export async function openGateway(runtime: GatewayRuntime): Promise<OpenGateway> {
  return await openChosenGateway(await chooseGateway(runtime), runtime);
}

/** Connects to the gateway of this home, whatever else is named. `GATEWAY_UNREACHABLE` when it does not answer. */
export async function openLocalGateway(runtime: GatewayRuntime): Promise<OpenGateway> {
  const socket = await findAdminSocket(runtime.home.gatewayDir);
  return await openChosenGateway({ chosenBy: "local_socket", socket }, runtime);
}

/** Connects to a gateway that was chosen. */
export async function openChosenGateway(
  chosen: RemoteGateway | LocalGateway,
  runtime: GatewayRuntime,
): Promise<OpenGateway> {
  if (chosen.chosenBy !== "local_socket") return openRemoteGateway(chosen, runtime);
  await assertAnswers(chosen.socket, runtime);
  const connection = openGrpcClient({
    address: `unix:${chosen.socket}`,
    security: "insecure",
    connectTimeoutMs,
    metadata: askingHeaders(runtime),
  });
  return toOpenGateway(connection, runtime);
}

/** Connects to a gateway elsewhere; the token is sent to whoever proves the pinned key, and to nobody else. */
export function openRemoteGateway(
  { address, pin, token }: RemoteGateway,
  runtime: GatewayRuntime,
): OpenGateway {
  const connection = openGrpcClient({
    address,
    security: () => ({
      verifyPeer: (chain) => judgeGateway({ pins: [pin], clock: runtime.clock }, chain),
    }),
    connectTimeoutMs,
    metadata: { authorization: `Bearer ${token}`, ...askingHeaders(runtime) },
  });
  return toOpenGateway(connection, runtime);
}

function toOpenGateway(connection: GrpcClient, runtime: GatewayRuntime): OpenGateway {
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
