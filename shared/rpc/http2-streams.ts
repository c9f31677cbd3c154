import { subscribe } from "node:diagnostics_channel";
import type { Http2Session, ServerHttp2Stream } from "node:http2";
import { connectionWindowBytes } from "./limits.ts";

/**
 * grpc-js shows neither the HTTP/2 stream of a call nor its session. Node's public diagnostics channel gives both when
 * a stream is created, before grpc-js sees it: a number written into its headers finds the stream again from the call's
 * metadata, and the session's receiving window is raised in time for that first stream.
 */
const numberHeader = "fairlead-stream";

const streams = new Map<string, ServerHttp2Stream>();
const raised = new WeakSet<Http2Session>();
let lastNumber = 0;
let subscribed = false;

interface StreamCreated {
  readonly stream: ServerHttp2Stream;
  readonly headers: Record<string, string>;
}

/** Begins to number the streams of this process's HTTP/2 servers; once is enough. */
export function numberServerStreams(): void {
  if (subscribed) return;
  subscribed = true;
  subscribe("http2.server.stream.created", (message) => {
    // The channel's documented message.
    const { stream, headers } = message as StreamCreated;
    lastNumber += 1;
    const number = String(lastNumber);
    headers[numberHeader] = number;
    streams.set(number, stream);
    stream.once("close", () => void streams.delete(number));
    raiseWindow(stream.session);
  });
}

function raiseWindow(session: Http2Session | undefined): void {
  if (!session || raised.has(session)) return;
  raised.add(session);
  session.setLocalWindowSize(connectionWindowBytes);
}

/** The HTTP/2 stream of a call, by the call's metadata; undefined when it is gone. */
export function findServerStream(metadata: ReadonlyMap<string, string>): ServerHttp2Stream | undefined {
  return streams.get(metadata.get(numberHeader) ?? "");
}
