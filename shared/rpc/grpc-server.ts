import { lstat, unlink } from "node:fs/promises";
import { createServer, type Server as NetServer, type Socket } from "node:net";
import { setImmediate } from "node:timers/promises";
import { Server, ServerCredentials } from "@grpc/grpc-js";
import { errnoOf } from "../fault/fault-from-errno.ts";
import { Fault } from "../fault/fault.ts";
import { joinAddress, parseListenAddress, type Address } from "../identity/address.ts";
import { systemClock, type Clock } from "../lifetime/clock.ts";
import { createDispatcher, startCallDeadline, unknownMethodFault, type Dispatcher } from "./dispatch.ts";
import {
  connectionOf,
  failCall,
  goneStatus,
  identity,
  toArrivedCall,
  toIncomingCall,
  toServerRawStream,
  writeAnswer,
  type GrpcCall,
} from "./grpc-server-call.ts";
import { numberServerStreams } from "./http2-streams.ts";
import { connectTimeoutMs, maxEnvelopeBytes } from "./limits.ts";
import { createNewcomers } from "./newcomers.ts";
import { isRawMethod, type RawMethod } from "./raw-stream.ts";
import type { ServedService } from "./service.ts";
import { methodPath } from "./transport.ts";

/** Turns of the event loop in which HTTP/2 and the socket hand on what they hold. */
const flushTurns = 3;

/** What `startGrpcServer` takes. */
export interface GrpcServerOptions {
  readonly services: readonly ServedService[];
  /** `host:port` (port 0 chooses one) or `unix:/path`. */
  readonly address: string;
  /** Of `createServerCredentials`, or `insecure` for a local socket. */
  readonly credentials: ServerCredentials | "insecure";
  readonly clock?: Clock;
}

/** A gRPC server. Disposing it ends every connection at once; drain it first. */
export interface GrpcServer extends AsyncDisposable {
  /** The address that it listens on, with the port that was chosen. */
  readonly address: string;
  /** The port; 0 for a local socket. */
  readonly port: number;
  /** Connections open now. */
  readonly connectionCount: number;
  /** Calls running now, parked streams among them. */
  readonly callCount: number;
  /** Takes no new connection and waits until no call runs, at most `timeoutMs`. */
  drain(options: { readonly timeoutMs: number; readonly signal?: AbortSignal }): Promise<void>;
}

/** Starts a server; it listens when the promise resolves. `ALREADY_EXISTS` when the address is taken. */
export async function startGrpcServer(options: GrpcServerOptions): Promise<GrpcServer> {
  numberServerStreams();
  const clock = options.clock ?? systemClock;
  const calls = new Calls(clock);
  const server = new Server({
    "grpc.max_receive_message_length": maxEnvelopeBytes,
    "grpc.max_send_message_length": maxEnvelopeBytes,
    "grpc.enable_channelz": 0,
  });
  const sockets = new Sockets(clock, calls);
  const dispatcher = createDispatcher(options.services);
  registerAll(server, options.services, { dispatcher, calls, sockets, clock });
  const { credentials } = options;
  const injector = server.createConnectionInjector(
    credentials === "insecure" ? ServerCredentials.createInsecure() : credentials,
  );
  const newcomers = createNewcomers((socket) => injector.injectConnection(socket));
  const listener = createServer((socket) => {
    sockets.add(socket);
    newcomers(socket);
  });
  const where = whereOf(options.address);
  await listen(listener, where, options.address);
  const port = portOf(listener);
  return {
    address: "path" in where ? options.address : joinAddress({ host: where.host, port }),
    port,
    get connectionCount() {
      return sockets.count;
    },
    get callCount() {
      return calls.count;
    },
    drain: async ({ timeoutMs, signal }) => {
      void stop(listener);
      await calls.settled(timeoutMs, signal);
      // A call is over before the last of its answer has left this process.
      for (let turn = 0; turn < flushTurns; turn += 1) await setImmediate();
    },
    [Symbol.asyncDispose]: async () => {
      const stopped = stop(listener);
      sockets.destroyAll();
      server.forceShutdown();
      await stopped;
      await calls.settled(1000);
    },
  };
}

interface Registration {
  readonly dispatcher: Dispatcher;
  readonly calls: Calls;
  readonly sockets: Sockets;
  readonly clock: Clock;
}

function registerAll(server: Server, services: readonly ServedService[], to: Registration): void {
  for (const { service, implementation } of services) {
    for (const method of service.methods) {
      const path = methodPath(method);
      const implemented = implementation[method.localName];
      const handle = (call: GrpcCall): void => {
        to.calls.add(call);
        if (isRawMethod(implemented)) acceptRaw(call, implemented, to);
        else if (to.dispatcher.find(path)) void answerCall(call, path, to);
        else failCall(call, unknownMethodFault(path));
      };
      // One handler type for all: on the wire a unary call is a bidirectional one with one message each way.
      server.register(path, handle, identity.serialize, identity.deserialize, "bidi");
    }
  }
}

function acceptRaw(call: GrpcCall, method: RawMethod, { sockets, clock }: Registration): void {
  const connection = connectionOf(call, sockets.find(call.getPeer()));
  if (connection) method.accept(toServerRawStream(call, { connection, clock }));
  else call.emit("error", goneStatus);
}

async function answerCall(call: GrpcCall, path: string, { dispatcher, clock }: Registration): Promise<void> {
  const arrived = toArrivedCall(call, path, clock);
  using deadline = startCallDeadline(arrived);
  try {
    for await (const message of dispatcher.answer(toIncomingCall(call, arrived, deadline.signal))) {
      await writeAnswer(call, message);
      if (deadline.signal.aborted) break;
    }
    deadline.signal.throwIfAborted();
    call.end();
  } catch (error) {
    failCall(call, error);
  }
}

/** Calls that run, and which connections have ever made one. */
class Calls {
  readonly #running = new Set<GrpcCall>();
  readonly #clock: Clock;
  #onEmpty: (() => void)[] = [];
  readonly peers = new Set<string>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get count(): number {
    return this.#running.size;
  }

  add(call: GrpcCall): void {
    this.#running.add(call);
    this.peers.add(call.getPeer());
    call.once("close", () => {
      this.#running.delete(call);
      if (this.#running.size > 0) return;
      for (const onEmpty of this.#onEmpty.splice(0)) onEmpty();
    });
  }

  /** Resolves when no call runs, at the latest after `timeoutMs`; rejects with the signal's reason. */
  async settled(timeoutMs: number, signal?: AbortSignal): Promise<void> {
    if (this.#running.size === 0) return;
    const empty = new AbortController();
    this.#onEmpty.push(() => empty.abort());
    const waiting = signal ? AbortSignal.any([signal, empty.signal]) : empty.signal;
    await this.#clock.sleep(timeoutMs, { signal: waiting }).catch(() => undefined);
    if (!empty.signal.aborted) signal?.throwIfAborted();
  }
}

/** Connections that are open; one that makes no call in time is ended. */
class Sockets {
  readonly #open = new Set<Socket>();
  readonly #byPeer = new Map<string, Socket>();
  readonly #clock: Clock;
  readonly #calls: Calls;

  constructor(clock: Clock, calls: Calls) {
    this.#clock = clock;
    this.#calls = calls;
  }

  get count(): number {
    return this.#open.size;
  }

  add(socket: Socket): void {
    const peer = `${socket.remoteAddress}:${socket.remotePort}`;
    const closed = new AbortController();
    this.#open.add(socket);
    if (socket.remotePort !== undefined) this.#byPeer.set(peer, socket);
    // What goes wrong on a connection shows in its calls; unheard, it would end the process.
    socket.on("error", () => undefined);
    socket.once("close", () => {
      this.#open.delete(socket);
      this.#calls.peers.delete(peer);
      if (this.#byPeer.get(peer) === socket) this.#byPeer.delete(peer);
      closed.abort(new Fault("CANCELLED", "the connection is gone"));
    });
    if (socket.remotePort !== undefined) void this.#endWhenSilent(socket, peer, closed.signal);
  }

  /** The connection of a peer, as a call names it; undefined for a local socket, and when it is gone. */
  find(peer: string): Socket | undefined {
    return this.#byPeer.get(peer);
  }

  async #endWhenSilent(socket: Socket, peer: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#clock.sleep(connectTimeoutMs, { signal });
    } catch {
      return;
    }
    if (!this.#calls.peers.has(peer)) socket.destroy();
  }

  destroyAll(): void {
    for (const socket of this.#open) socket.destroy();
  }
}

type Where = Address | { readonly path: string };

function whereOf(address: string): Where {
  if (address.startsWith("unix:")) return { path: address.slice("unix:".length) };
  return parseListenAddress(address);
}

function portOf(listener: NetServer): number {
  const bound = listener.address();
  return typeof bound === "object" && bound ? bound.port : 0;
}

async function listen(listener: NetServer, where: Where, address: string): Promise<void> {
  if ("path" in where) await removeOldSocket(where.path);
  await new Promise<void>((resolve, reject) => {
    const onError = (error: Error): void => reject(listenFault(error, address));
    listener.once("error", onError);
    listener.listen(where, () => {
      listener.off("error", onError);
      resolve();
    });
  });
}

function stop(listener: NetServer): Promise<void> {
  return new Promise((resolve) => {
    listener.close(() => resolve());
  });
}

/** A socket file that an ended process left behind; anything else stays, and the listening fails. */
async function removeOldSocket(path: string): Promise<void> {
  const found = await lstat(path).catch(() => undefined);
  if (found?.isSocket()) await unlink(path).catch(() => undefined);
}

function listenFault(error: Error, address: string): Fault {
  const errno = errnoOf(error) ?? "EUNKNOWN";
  if (errno === "EADDRINUSE") {
    return new Fault("ALREADY_EXISTS", `another program listens on ${address} already`, {
      hint: "stop that program, or listen on another address",
      details: { errno, address },
      cause: error,
    });
  }
  return new Fault("IO_ERROR", `cannot listen on ${address} (${errno})`, {
    details: { errno, address },
    cause: error,
  });
}
