import { create, toBinary, type MessageInitShape } from "@bufbuild/protobuf";
import type { Fault } from "../../shared/fault/fault.ts";
import { NodeLinkControlResponseSchema } from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { encodedOf } from "../../shared/rpc/encoded.ts";
import type { ServerConnection, ServerRawStream } from "../../shared/rpc/raw-stream.ts";
import { ServeStream } from "./serve-stream.ts";
import { StreamPool } from "./stream-pool.ts";

/** A message of the gateway on a control stream. */
export type ControlAnswer = NonNullable<MessageInitShape<typeof NodeLinkControlResponseSchema>["kind"]>;

/** What one connection of a link tells the link. */
export interface SideOwner {
  readonly clock: Clock;
  /** Something of the node arrived. */
  readonly onAlive: () => void;
  /** The node should stop the work of a call. */
  readonly cancelCall: (callId: string, fault: Fault) => void;
  /** Something arrived that belongs to no call. */
  readonly onDropped: () => void;
  /** What calls get that lose their stream. */
  readonly lostFault: () => Fault;
}

/** One connection of a link: its control stream and the streams that the node parked on it. */
export class LinkSide {
  readonly #control: ServerRawStream;
  readonly #owner: SideOwner;
  readonly #over = new AbortController();
  readonly pool: StreamPool;

  constructor(control: ServerRawStream, owner: SideOwner) {
    this.#control = control;
    this.#owner = owner;
    this.pool = new StreamPool({
      clock: owner.clock,
      signal: this.signal,
      askFor: (target) => this.send({ case: "moreStreams", value: { target } }),
    });
  }

  get connection(): ServerConnection {
    return this.#control.connection;
  }

  /** Aborts when the side is over. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** Messages on the control stream that the node has not taken. */
  get unsentCount(): number {
    return this.#control.unsentCount;
  }

  /** Sends a message on the control stream. */
  send(kind: ControlAnswer): void {
    if (this.signal.aborted) return;
    const message = create(NodeLinkControlResponseSchema, { kind });
    this.#control.write(encodedOf(toBinary(NodeLinkControlResponseSchema, message)));
  }

  /** Takes a stream that the node opened on this connection. */
  accept(raw: ServerRawStream): ServeStream {
    return new ServeStream(raw, {
      onFree: (stream) => this.pool.onFree(stream),
      onGone: (stream) => this.pool.onGone(stream),
      cancelCall: this.#owner.cancelCall,
      onAlive: this.#owner.onAlive,
      onDropped: this.#owner.onDropped,
      lostFault: this.#owner.lostFault,
    });
  }

  /** A stream that it took was parked: the node lives, and the stream is free. */
  parked(stream: ServeStream): void {
    this.#owner.onAlive();
    this.pool.onFree(stream);
  }

  /** Ends it: calls on its streams hear of the loss, and the connection is gone soon. Without a fault it ends cleanly. */
  end(fault: Fault | undefined): void {
    if (this.signal.aborted) return;
    this.#over.abort(this.#owner.lostFault());
    this.pool.lose();
    this.#control.end(fault);
    void destroySoon(this.connection, this.#owner.clock);
  }
}

/** How long a peer has to take the status that ends its link, in milliseconds. */
const lastWordMs = 500;

/** Ends a connection once its peer has had the time to read why. */
export async function destroySoon(connection: ServerConnection, clock: Clock): Promise<void> {
  await clock.sleep(lastWordMs, { signal: connection.closed }).catch(() => undefined);
  connection.destroy();
}
