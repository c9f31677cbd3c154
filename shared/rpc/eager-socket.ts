import type { Socket } from "node:net";
import { Duplex } from "node:stream";

/**
 * Node's HTTP/2 stops to read a socket while a write to it is unfinished. When both ends have more to send than the
 * kernel's buffers hold, each waits for the other to read, for ever. A socket that finishes every write at once keeps its
 * end reading, and then the other end's writes finish too: one end is enough, so clients have it. What it holds back is
 * bounded by what the HTTP/2 windows and the credit of the calls let be in flight.
 */
export function eagerSocket(socket: Socket): Socket {
  // grpc-js only uses what every duplex stream has; Node wraps a stream that is no socket by itself.
  return new EagerSocket(socket) as unknown as Socket;
}

class EagerSocket extends Duplex {
  readonly #socket: Socket;

  constructor(socket: Socket) {
    super({ allowHalfOpen: true });
    this.#socket = socket;
    socket.on("data", (bytes: Buffer) => {
      if (!this.push(bytes)) socket.pause();
    });
    socket.once("end", () => void this.push(null));
    socket.once("close", () => void this.destroy());
    socket.once("error", (error) => void this.destroy(error));
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    this.#socket.write(bytes);
    done();
  }

  override _writev(pieces: { readonly chunk: Buffer }[], done: () => void): void {
    this.#socket.cork();
    for (const { chunk } of pieces) this.#socket.write(chunk);
    this.#socket.uncork();
    done();
  }

  override _final(done: () => void): void {
    this.#socket.end(done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }
}
