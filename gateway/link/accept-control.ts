import { Fault } from "../../shared/fault/fault.ts";
import {
  LinkPurpose,
  NodeLinkControlRequestSchema,
  type Hello,
  type NodeLinkControlRequest,
} from "../../shared/gen/fairlead/v1/link_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { decodeMessage } from "../../shared/rpc/codec.ts";
import { connectTimeoutMs } from "../../shared/rpc/limits.ts";
import type { ServerRawStream } from "../../shared/rpc/raw-stream.ts";
import { destroySoon } from "./link-side.ts";

/** A message of the node on the control stream. */
export type ControlMessage = NodeLinkControlRequest["kind"];

/** What becomes of a control stream. */
export interface ControlListener {
  /** A hello that is well formed; a fault it throws ends the stream. Returns who hears the messages that follow. */
  readonly onHello: (hello: Hello, control: ServerRawStream) => Promise<ControlSession>;
}

/** Who hears an accepted control stream. */
export interface ControlSession {
  readonly onMessage: (message: ControlMessage) => void;
  readonly onClosed: (fault: Fault | undefined) => void;
}

/**
 * Takes a control stream: its first message is a hello, within the connect deadline, or it ends. What arrives while the
 * hello is judged waits its turn.
 */
export function acceptControl(control: ServerRawStream, clock: Clock, listener: ControlListener): void {
  const waiting: ControlMessage[] = [];
  let session: ControlSession | undefined;
  let begun = false;
  let over = false;
  const early = new AbortController();
  const refuse = (error: unknown): void => {
    if (over) return;
    over = true;
    control.end(
      error instanceof Fault
        ? error
        : new Fault("INTERNAL", "the hello could not be judged", { cause: error }),
    );
    void destroySoon(control.connection, clock);
  };
  const begin = async (hello: Hello): Promise<void> => {
    const accepted = await listener.onHello(hello, control);
    session = accepted;
    if (over) accepted.onClosed(undefined);
    for (const message of waiting.splice(0)) accepted.onMessage(message);
  };
  control.onMessage((bytes) => {
    if (over) return;
    try {
      const { kind } = decodeMessage(NodeLinkControlRequestSchema, bytes);
      if (session) session.onMessage(kind);
      else if (begun) waiting.push(kind);
      else {
        begun = true;
        early.abort();
        begin(requireHello(kind)).catch(refuse);
      }
      if (waiting.length > 64)
        refuse(new Fault("LIMIT_REACHED", "too much was said before the hello was accepted"));
    } catch (error) {
      refuse(error);
    }
  });
  control.onClosed((fault) => {
    over = true;
    early.abort();
    session?.onClosed(fault);
  });
  clock.sleep(connectTimeoutMs, { signal: early.signal }).then(
    () => refuse(new Fault("DEADLINE_EXCEEDED", `no hello came within ${connectTimeoutMs} ms`)),
    () => undefined,
  );
}

function requireHello(message: ControlMessage): Hello {
  if (message.case !== "hello") {
    throw new Fault("INVALID_ARGUMENT", "the first message of a link is a hello", {
      details: { field: "hello" },
    });
  }
  if (message.value.purpose !== LinkPurpose.CONTROL && message.value.purpose !== LinkPurpose.BULK) {
    throw new Fault("INVALID_ARGUMENT", "a hello says what its connection is for", {
      details: { field: "purpose" },
    });
  }
  return message.value;
}
