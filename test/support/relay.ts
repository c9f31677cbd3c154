import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

/** A way to a server that comes from another address of this machine. */
export interface Relay extends AsyncDisposable {
  /** Where it is dialled. */
  readonly address: string;
}

/** Starts a relay that dials `to` from the loopback address `from`, such as 127.0.0.2. The caller disposes it. */
export async function startRelay(from: string, to: string): Promise<Relay> {
  const port = Number(to.split(":")[1]);
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    const onward = connect({ host: "127.0.0.1", port, localAddress: from });
    for (const one of [socket, onward]) {
      sockets.add(one);
      one.once("close", () => void sockets.delete(one));
    }
    socket.on("error", () => void onward.destroy());
    onward.on("error", () => void socket.destroy());
    socket.pipe(onward).pipe(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await server[Symbol.asyncDispose]();
    },
  };
}
