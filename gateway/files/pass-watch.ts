import { create, type MessageInitShape } from "@bufbuild/protobuf";
import {
  type FilesBarrierRequest,
  type FilesBarrierResponseSchema,
  FilesWatchKind,
  type FilesWatchRequest,
  type FilesWatchResponse,
  type FilesWatchResponseSchema,
  SourceSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { noDeadline } from "../../shared/rpc/deadline.ts";
import type { CallContext } from "../../shared/rpc/service.ts";
import type { FilesFaceOptions } from "./face.ts";
import { perform, performStream, type Operation } from "./operation.ts";
import { callOptions, streamOptions, type Target } from "./target.ts";

/** Passes a watch on, for as long as its caller stays, without what the gateway's policy denies. */
export function passWatch(
  options: FilesFaceOptions,
  request: FilesWatchRequest,
  context: CallContext,
): AsyncIterable<MessageInitShape<typeof FilesWatchResponseSchema>> {
  const { workspace, path } = request;
  const asked = { workspace, path, verb: "read", kind: "watch_tree", context } as const;
  return performStream(options, asked, (operation) => watchParts(request, operation));
}

async function* watchParts(
  { since }: FilesWatchRequest,
  operation: Operation,
): AsyncIterable<MessageInitShape<typeof FilesWatchResponseSchema>> {
  const { target, pin, context } = operation;
  const events = target.handle.files.watch(
    { path: target.path, since, ...(pin ? { pin } : {}) },
    { ...streamOptions(context), deadlineMs: noDeadline },
  );
  let canonicalPath = target.path as string;
  for await (const event of events) {
    // The permission may have been taken back since the event before.
    await target.judge(event.source?.canonicalPath ?? canonicalPath);
    if (event.source) {
      canonicalPath = event.source.canonicalPath;
      yield { ...event, source: operation.made(event.source) };
      continue;
    }
    const passed = event.path === "" ? event : await filter(target, event);
    if (passed) yield passed;
  }
}

/** An event as one sees it who may not see every path; undefined when nothing is left of it. */
async function filter(target: Target, event: FilesWatchResponse): Promise<FilesWatchResponse | undefined> {
  const isDenied = (await target.denial(event.path)) !== undefined;
  if (event.kind !== FilesWatchKind.MOVED) return isDenied ? undefined : event;
  const isFromDenied = (await target.denial(event.from)) !== undefined;
  if (isDenied && isFromDenied) return undefined;
  const { entry: _, fault: __, ...rest } = event;
  if (isDenied) return { ...rest, kind: FilesWatchKind.REMOVED, path: event.from, from: "" };
  return isFromDenied ? { ...event, kind: FilesWatchKind.CREATED, from: "" } : event;
}

/** Passes a barrier on. */
export async function passBarrier(
  options: FilesFaceOptions,
  request: FilesBarrierRequest,
  context: CallContext,
): Promise<MessageInitShape<typeof FilesBarrierResponseSchema>> {
  const { workspace, token } = request;
  const asked = { workspace, path: "", verb: "list", kind: "settle", isHelp: true, context } as const;
  return await perform(options, asked, async (operation) => {
    operation.made(create(SourceSchema, {}));
    return await operation.target.handle.files.barrier({ token }, callOptions(operation.context));
  });
}
