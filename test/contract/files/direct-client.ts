import type { DescService } from "@bufbuild/protobuf";
import { createDispatcher } from "../../../shared/rpc/dispatch.ts";
import { bytesOf } from "../../../shared/rpc/encoded.ts";
import { serve, type Client, type ServiceImplementation } from "../../../shared/rpc/service.ts";
import { createClient } from "../../../shared/rpc/transport.ts";

/** A client that calls an implementation in the same process; every message is encoded and decoded as on a wire, and `metadata` comes with each call. */
export function createDirectClient<S extends DescService>(
  service: S,
  implementation: ServiceImplementation<S>,
  metadata: ReadonlyMap<string, string> = new Map(),
): Client<S> {
  const dispatcher = createDispatcher([serve(service, implementation)]);
  return createClient(service, async function* ({ path, requests, callId, remainingMs, signal }) {
    const answers = dispatcher.answer({
      path,
      requests: copied(requests),
      callId,
      remainingMs,
      traceparent: undefined,
      idempotencyKey: undefined,
      metadata,
      peer: { address: "" },
      signal: signal ?? new AbortController().signal,
    });
    yield* copied(answers);
  });
}

async function* copied(
  messages: AsyncIterable<Parameters<typeof bytesOf>[0]>,
): AsyncGenerator<Uint8Array, void> {
  for await (const message of messages) yield Buffer.from(bytesOf(message));
}
