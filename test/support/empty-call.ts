import { Readable } from "node:stream";
import type { DescMethod } from "@bufbuild/protobuf";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import type { Fault } from "../../shared/fault/fault.ts";
import type { GrpcClient } from "../../shared/rpc/grpc-client.ts";

/** Calls a method with nothing in its request, or as much as it waits for; gives the fault that it ends with, if it fails. */
export async function faultOfEmptyCall(
  client: GrpcClient,
  method: DescMethod,
  first: Readonly<Record<string, unknown>> = {},
): Promise<Fault | undefined> {
  const called = (client.client(method.parent) as Record<string, (request: unknown) => unknown>)[
    method.localName
  ];
  const streams = method.methodKind === "client_streaming" || method.methodKind === "bidi_streaming";
  try {
    const answer = called?.(streams ? Readable.from([first]) : first);
    if (method.methodKind === "server_streaming" || method.methodKind === "bidi_streaming") {
      for await (const _ of answer as AsyncIterable<unknown>) break;
    } else await answer;
    return undefined;
  } catch (error) {
    return faultFromError(error);
  }
}
