import type { MessageInitShape } from "@bufbuild/protobuf";
import {
  type FilesBarrierRequest,
  type FilesBarrierResponseSchema,
  FilesWatchKind,
  type FilesWatchRequest,
  type FilesWatchResponse,
  type FilesWatchResponseSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { noDeadline } from "../../shared/rpc/deadline.ts";
import type { CallContext } from "../../shared/rpc/service.ts";
import type { FilesFaceOptions } from "./face.ts";
import { callOptions, findTarget, type Target, toSource } from "./target.ts";

/** Passes a watch on, for as long as its caller stays, without what the gateway's policy denies. */
export async function* passWatch(
  options: FilesFaceOptions,
  request: FilesWatchRequest,
  context: CallContext,
): AsyncIterable<MessageInitShape<typeof FilesWatchResponseSchema>> {
  const target = await findTarget(options, { ...request, verb: "read" }, context);
  const { since } = request;
  const events = target.handle.files.watch(
    { path: target.path, since },
    { ...callOptions(context), deadlineMs: noDeadline },
  );
  let canonicalPath = target.path as string;
  for await (const event of events) {
    // The permission may have been taken back since the event before.
    await target.judge(event.source?.canonicalPath ?? canonicalPath);
    if (event.source) {
      canonicalPath = event.source.canonicalPath;
      yield { ...event, source: toSource(target, event.source) };
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
  const target = await findTarget(options, { workspace, path: "", verb: "list" }, context);
  return target.handle.files.barrier({ token }, callOptions(context));
}
