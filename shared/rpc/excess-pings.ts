import { randomUUID } from "node:crypto";
import { subscribe } from "node:diagnostics_channel";
import { constants, type ClientHttp2Stream, type Http2Session } from "node:http2";

/**
 * grpc-js tells nobody why a connection was closed. Node's public diagnostics channel gives the session of a stream, which a
 * word in the stream's headers finds again.
 */
const dialHeader = "fairlead-dial";

const listeners = new Map<string, () => void>();
const heard = new WeakSet<Http2Session>();
let subscribed = false;

interface StreamCreated {
  readonly stream: ClientHttp2Stream;
  readonly headers: Readonly<Record<string, unknown>> | readonly unknown[];
}

/** Headers for the streams of one client; `onExcess` hears of a close for too many pings, until the signal aborts. */
export function watchForExcessPings(
  onExcess: (() => void) | undefined,
  signal: AbortSignal,
): Readonly<Record<string, string>> {
  if (!onExcess) return {};
  subscribeOnce();
  const name = randomUUID();
  listeners.set(name, onExcess);
  signal.addEventListener("abort", () => void listeners.delete(name), { once: true });
  return { [dialHeader]: name };
}

function subscribeOnce(): void {
  if (subscribed) return;
  subscribed = true;
  subscribe("http2.client.stream.created", (message) => {
    // The channel's documented message.
    const { stream, headers } = message as StreamCreated;
    const { session } = stream;
    if (!session || heard.has(session) || Array.isArray(headers)) return;
    const name = Reflect.get(headers, dialHeader);
    if (typeof name !== "string") return;
    heard.add(session);
    session.once("goaway", (code, _last, opaque) => {
      if (code === constants.NGHTTP2_ENHANCE_YOUR_CALM && String(opaque) === "too_many_pings")
        listeners.get(name)?.();
    });
  });
}
