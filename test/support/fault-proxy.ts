import { once } from "node:events";
import { connect, createServer } from "node:net";
import type { Server, Socket } from "node:net";
import { Pipe, SharedRate } from "./fault-proxy-pipe.ts";
import type { LineCounts, LineFaults } from "./fault-proxy-pipe.ts";

/** `up` is from the client to the target, `down` the other way. */
export type Direction = "up" | "down";

/** What the proxy has seen so far. */
export interface ProxyCounts {
  /** Connections taken since the start. */
  readonly connections: number;
  /** Connections that are open now. */
  readonly open: number;
  readonly up: Readonly<LineCounts>;
  readonly down: Readonly<LineCounts>;
}

/** What the proxy stands before. */
export interface FaultProxyOptions {
  /** A port of 127.0.0.1. */
  readonly targetPort: number;
}

interface Connection {
  readonly sockets: readonly [Socket, Socket];
  readonly pipes: Readonly<Record<Direction, Pipe>>;
}

const both: readonly Direction[] = ["up", "down"];

function soundLine(): LineFaults {
  return {
    stalled: false,
    swallows: false,
    delayMs: 0,
    bytesPerSecond: undefined,
    maxWriteBytes: undefined,
    shared: undefined,
  };
}

/**
 * A TCP line on loopback that breaks on command. Every verb holds for the connections there are and for those to come,
 * until `mend`; `cut` and `halfClose` are for those there are. Disposing cuts everything and gives the port back.
 */
export class FaultProxy implements AsyncDisposable {
  readonly #lines: Readonly<Record<Direction, LineFaults>> = { up: soundLine(), down: soundLine() };
  readonly #counts: Readonly<Record<Direction, LineCounts>> = {
    up: { bytes: 0, swallowedBytes: 0 },
    down: { bytes: 0, swallowedBytes: 0 },
  };
  readonly #open = new Set<Connection>();
  #connections = 0;
  #server: Server | undefined;
  #port = 0;
  #targetPort: number;

  constructor(options: FaultProxyOptions) {
    this.#targetPort = options.targetPort;
  }

  /** The port that clients dial, the same for as long as the proxy lives. */
  get port(): number {
    return this.#port;
  }

  get counts(): ProxyCounts {
    const { up, down } = this.#counts;
    return { connections: this.#connections, open: this.#open.size, up: { ...up }, down: { ...down } };
  }

  /** Takes new connections, at first and again after `refuse`. */
  async accept(): Promise<void> {
    if (this.#server) return;
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => this.#join(socket));
    server.listen(this.#port, "127.0.0.1");
    this.#server = server;
    await once(server, "listening");
    const address = server.address();
    if (address !== null && typeof address === "object") this.#port = address.port;
  }

  /** Has new connections refused; those there are go on. */
  refuse(): void {
    this.#server?.close();
    this.#server = undefined;
  }

  /** Sends connections to come to another port of 127.0.0.1. */
  retarget(port: number): void {
    this.#targetPort = port;
  }

  /** Destroys all connections, both sides: an end in mid-frame, or with `reset` a reset. */
  cut(options: { readonly reset?: boolean } = {}): void {
    for (const { sockets } of this.#open) {
      for (const socket of sockets) {
        if (options.reset === true) socket.resetAndDestroy();
        else socket.destroy();
      }
    }
  }

  /** Reads and writes nothing any more, as if the machine were frozen; connections are still taken. */
  stall(): void {
    this.#change(both, { stalled: true });
  }

  /** Ends a stall: nothing was lost. */
  resume(): void {
    this.#change(both, { stalled: false });
  }

  /** Reads and drops, as if a router had forgotten the connection; the end of that side is dropped too. */
  swallow(direction: Direction): void {
    this.#change([direction], { swallows: true });
  }

  /** Delays each byte, each way, and nothing else: the order stays and so does the throughput. */
  delay(ms: number): void {
    this.#change(both, { delayMs: ms });
  }

  /** Limits the rate each way. */
  limit(bytesPerSecond: number): void {
    this.#change(both, { bytesPerSecond });
  }

  /** Limits the rate each way for all connections together, which take turns. */
  share(bytesPerSecond: number): void {
    for (const direction of both) this.#change([direction], { shared: new SharedRate(bytesPerSecond) });
  }

  /** Writes at most so many bytes at a time, each way, so that frames arrive in pieces. */
  chop(maxBytes: number): void {
    this.#change(both, { maxWriteBytes: maxBytes });
  }

  /** Ends one direction of all connections and leaves the other open. */
  halfClose(direction: Direction): void {
    for (const { pipes } of this.#open) pipes[direction].halfClose();
  }

  /** The line is sound again; what was swallowed or cut stays lost. */
  mend(): void {
    this.#change(both, soundLine());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.refuse();
    const sockets = Array.from(this.#open, (connection) => connection.sockets).flat();
    const closed = sockets.filter((socket) => !socket.closed).map((socket) => once(socket, "close"));
    this.cut();
    await Promise.all(closed);
  }

  #change(directions: readonly Direction[], faults: Partial<LineFaults>): void {
    for (const direction of directions) {
      Object.assign(this.#lines[direction], faults);
      for (const { pipes } of this.#open) pipes[direction].changed();
    }
  }

  #join(client: Socket): void {
    this.#connections += 1;
    const target = connect({ port: this.#targetPort, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    const pipe = (direction: Direction): Pipe => {
      const [from, to] = direction === "up" ? [client, target] : [target, client];
      return new Pipe({ from, to, faults: this.#lines[direction], counts: this.#counts[direction] });
    };
    const connection: Connection = {
      sockets: [client, target],
      pipes: { up: pipe("up"), down: pipe("down") },
    };
    this.#open.add(connection);
    this.#tie(connection, "up");
    this.#tie(connection, "down");
  }

  /** A socket that is gone takes the other with it, unless its direction is swallowed: then nobody hears of it. */
  #tie(connection: Connection, direction: Direction): void {
    const [client, target] = connection.sockets;
    const [from, to] = direction === "up" ? [client, target] : [target, client];
    from.on("error", () => {
      if (!this.#lines[direction].swallows) to.resetAndDestroy();
    });
    from.on("close", () => {
      const finished = from.readableEnded && from.errored === null;
      if (!finished && !this.#lines[direction].swallows) to.destroy();
      if (client.destroyed && target.destroyed) this.#open.delete(connection);
    });
    const pipe = connection.pipes[direction];
    pipe.changed();
    pipe.run().catch((error: unknown) => {
      to.destroy(error instanceof Error ? error : undefined);
    });
  }
}

/** Starts a proxy before a port of 127.0.0.1; the caller disposes it. */
export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const proxy = new FaultProxy(options);
  await proxy.accept();
  return proxy;
}
