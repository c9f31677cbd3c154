import { connect, type TLSSocket } from "node:tls";
import type { ClientTls } from "../../shared/rpc/client-credentials.ts";

/** Kinds of HTTP/2 frames, by their number. */
const kinds = { data: 0, headers: 1, reset: 3, settings: 4, ping: 6, goaway: 7, windowUpdate: 8 } as const;

const preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
const endHeaders = 4;
const ack = 1;

/** One stream as the peer sees it. */
export interface RawStreamState {
  readonly id: number;
  /** Messages of gRPC that arrived on it. */
  readonly messages: Buffer[];
  /** Whether the server reset it. */
  reset: boolean;
  /** Whether the server ended it. */
  ended: boolean;
}

/**
 * An HTTP/2 peer that writes its frames by hand: it answers settings and pings, keeps to the windows, and heeds neither the
 * reset nor the end of a stream. For one connection to a gRPC server on loopback.
 */
export class RawHttp2Peer implements Disposable {
  readonly #socket: TLSSocket;
  readonly #streams = new Map<number, RawStreamState>();
  readonly #windows = new Map<number, number>();
  #connectionWindow = 65_535;
  #initialWindow = 65_535;
  #pending: Buffer = Buffer.alloc(0);
  #bodies = new Map<number, Buffer>();
  #nextId = 1;
  /** Bytes of gRPC that were sent on all streams. */
  sentBytes = 0;
  /** Whether the server ended the connection. */
  gone = false;

  constructor(socket: TLSSocket) {
    this.#socket = socket;
    socket.on("data", (bytes: Buffer) => this.#read(bytes));
    socket.on("error", () => undefined);
    socket.on("close", () => {
      this.gone = true;
    });
    socket.write(preface);
    this.#write(kinds.settings, 0, { payload: Buffer.alloc(0) });
  }

  /** Opens a stream of a gRPC method. */
  open(path: string): RawStreamState {
    const id = this.#nextId;
    this.#nextId += 2;
    const state: RawStreamState = { id, messages: [], reset: false, ended: false };
    this.#streams.set(id, state);
    this.#windows.set(id, this.#initialWindow);
    this.#write(kinds.headers, id, { flags: endHeaders, payload: headerBlock(path) });
    return state;
  }

  /** Sends a message as far as the windows allow; says whether it was sent. */
  send({ id }: RawStreamState, message: Uint8Array): boolean {
    const size = message.byteLength + 5;
    const window = this.#windows.get(id) ?? 0;
    if (size > Math.min(window, this.#connectionWindow) || this.#socket.writableLength > 1024 * 1024)
      return false;
    const head = Buffer.alloc(5);
    head.writeUInt32BE(message.byteLength, 1);
    const body = Buffer.concat([head, message]);
    for (let at = 0; at < body.byteLength; at += 16_384) {
      this.#write(kinds.data, id, { payload: body.subarray(at, at + 16_384) });
    }
    this.#windows.set(id, window - size);
    this.#connectionWindow -= size;
    this.sentBytes += size;
    return true;
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
  }

  #write(
    kind: number,
    id: number,
    { flags = 0, payload }: { readonly flags?: number; readonly payload: Buffer },
  ): void {
    const head = Buffer.alloc(9);
    head.writeUIntBE(payload.byteLength, 0, 3);
    head[3] = kind;
    head[4] = flags;
    head.writeUInt32BE(id, 5);
    this.#socket.write(Buffer.concat([head, payload]));
  }

  #read(bytes: Buffer): void {
    this.#pending = Buffer.concat([this.#pending, bytes]);
    while (this.#pending.byteLength >= 9) {
      const length = this.#pending.readUIntBE(0, 3);
      if (this.#pending.byteLength < 9 + length) return;
      const [kind, flags] = [this.#pending.readUInt8(3), this.#pending.readUInt8(4)];
      const id = this.#pending.readUInt32BE(5);
      const payload = this.#pending.subarray(9, 9 + length);
      this.#pending = this.#pending.subarray(9 + length);
      this.#take(kind, id, { flags, payload });
    }
  }

  #take(
    kind: number,
    id: number,
    { flags, payload }: { readonly flags: number; readonly payload: Buffer },
  ): void {
    const stream = this.#streams.get(id);
    if (stream && (kind === kinds.data || kind === kinds.headers) && (flags & 1) === 1) stream.ended = true;
    if (kind === kinds.settings && (flags & ack) === 0) return this.#takeSettings(payload);
    if (kind === kinds.ping && (flags & ack) === 0)
      return this.#write(kinds.ping, 0, { flags: ack, payload });
    if (kind === kinds.reset && stream) stream.reset = true;
    if (kind === kinds.windowUpdate) this.#grow(id, payload.readUInt32BE(0));
    if (kind === kinds.data && stream) this.#takeData(stream, payload);
  }

  #takeSettings(payload: Buffer): void {
    for (let at = 0; at + 6 <= payload.byteLength; at += 6) {
      if (payload.readUInt16BE(at) === 4) this.#initialWindow = payload.readUInt32BE(at + 2);
    }
    this.#write(kinds.settings, 0, { flags: ack, payload: Buffer.alloc(0) });
  }

  #grow(id: number, bytes: number): void {
    if (id === 0) this.#connectionWindow += bytes;
    else this.#windows.set(id, (this.#windows.get(id) ?? 0) + bytes);
  }

  #takeData(stream: RawStreamState, payload: Buffer): void {
    let body = Buffer.concat([this.#bodies.get(stream.id) ?? Buffer.alloc(0), payload]);
    while (body.byteLength >= 5 && body.byteLength >= 5 + body.readUInt32BE(1)) {
      const length = body.readUInt32BE(1);
      stream.messages.push(body.subarray(5, 5 + length));
      body = body.subarray(5 + length);
    }
    this.#bodies.set(stream.id, body);
    if (payload.byteLength === 0) return;
    const grown = Buffer.alloc(4);
    grown.writeUInt32BE(payload.byteLength);
    this.#write(kinds.windowUpdate, 0, { payload: grown });
    this.#write(kinds.windowUpdate, stream.id, { payload: grown });
  }
}

/** The headers of a gRPC call in HPACK: names from the static table, values as they are. */
function headerBlock(path: string): Buffer {
  const text = (value: string): Buffer => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)]);
  return Buffer.concat([
    Buffer.from([0x83, 0x87, 0x04]),
    text(path),
    Buffer.from([0x01]),
    text("fairlead"),
    Buffer.from([0x00]),
    text("content-type"),
    text("application/grpc"),
    Buffer.from([0x00]),
    text("te"),
    text("trailers"),
  ]);
}

/** Dials a TLS port of loopback as a peer with that certificate; resolves after the handshake. */
export async function dialRawHttp2(port: number, tls: ClientTls): Promise<RawHttp2Peer> {
  const socket = connect({
    port,
    host: "127.0.0.1",
    rejectUnauthorized: false,
    ALPNProtocols: ["h2"],
    minVersion: "TLSv1.3",
    ...(tls.keyPem === undefined ? {} : { key: tls.keyPem }),
    ...(tls.certificatePem === undefined ? {} : { cert: tls.certificatePem }),
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("secureConnect", resolve);
    socket.once("error", reject);
  });
  return new RawHttp2Peer(socket);
}
