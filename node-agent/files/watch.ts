import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import {
  type FilesBarrierRequest,
  type FilesBarrierResponse,
  FilesBarrierResponseSchema,
  type FilesWatchRequest,
  type FilesWatchResponse,
  FilesWatchResponseSchema,
  FilesWatchKind,
  SourceSchema,
  WatchLimitSchema,
  type WorkspaceFreshness,
  WorkspaceFreshnessSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { isBeneath, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { WatchLimit } from "../workspace/kernel-watches.ts";
import type { Workspace } from "../workspace/open-workspace.ts";
import type { Delivery, Freshness, SharedWatch } from "../workspace/shared-watch.ts";
import { toWireState } from "./manifest.ts";
import { parseRequestPath, toWireSource } from "./wire.ts";

/** A workspace with its watch. */
export interface WatchedWorkspace {
  readonly workspace: Workspace;
  readonly watch: SharedWatch;
}

/** `Files.Watch`. */
export async function* watchFiles(
  { workspace, watch }: WatchedWorkspace,
  request: FilesWatchRequest,
  signal: AbortSignal,
): AsyncGenerator<FilesWatchResponse, void> {
  const path = parseRequestPath(request.path);
  watch.requireCursor(request.since);
  const { canonicalPath } = await workspace.root.stat(path);
  const source = { workspace: workspace.settings.name, requestedPath: path, canonicalPath };
  yield create(FilesWatchResponseSchema, { source: create(SourceSchema, toWireSource(source)) });
  for await (const delivery of watch.subscribe(request.since, signal)) {
    // The permission may have been taken back since the event before.
    workspace.root.recheck("read", canonicalPath);
    if (!concerns(delivery, canonicalPath)) continue;
    if (isHidden(delivery, workspace)) continue;
    yield toWire(delivery, watch);
  }
}

function concerns(delivery: Delivery, folder: WorkspacePath): boolean {
  if (!("path" in delivery)) return true;
  return (
    isBeneath(delivery.path, folder) || (delivery.from !== undefined && isBeneath(delivery.from, folder))
  );
}

/** What was told of before a denial is not told of after it; that it was closed is. */
function isHidden(delivery: Delivery, workspace: Workspace): boolean {
  if (!("path" in delivery) || delivery.kind === "withdrawn") return false;
  return workspace.judge("read", delivery.path).decision !== "allow";
}

const kinds: Readonly<Record<Delivery["kind"], FilesWatchKind>> = {
  available: FilesWatchKind.AVAILABLE,
  unavailable: FilesWatchKind.UNAVAILABLE,
  gap: FilesWatchKind.GAP,
  created: FilesWatchKind.CREATED,
  changed: FilesWatchKind.CHANGED,
  removed: FilesWatchKind.REMOVED,
  moved: FilesWatchKind.MOVED,
  permitted: FilesWatchKind.PERMITTED,
  withdrawn: FilesWatchKind.WITHDRAWN,
  settled: FilesWatchKind.SETTLED,
};

function toWire(delivery: Delivery, watch: SharedWatch): FilesWatchResponse {
  const message = create(FilesWatchResponseSchema, { kind: kinds[delivery.kind], cursor: delivery.cursor });
  if (delivery.kind === "settled" && "token" in delivery) message.token = delivery.token;
  if ("fault" in delivery) message.fault = toWireFault(delivery.fault);
  if (delivery.kind === "available" || delivery.kind === "unavailable") {
    const { folders, covered } = watch.freshness();
    message.folders = BigInt(folders);
    message.coveredFolders = BigInt(covered);
  }
  if (!("path" in delivery)) return message;
  const { path, from, shown } = delivery;
  message.path = path;
  message.from = from ?? "";
  if (!shown) return message;
  if (shown.kind === "problem") message.fault = toWireFault(shown.fault);
  else message.entry = toWireState(path, shown);
  if (shown.kind === "file" && shown.fault) message.fault = toWireFault(shown.fault);
  return message;
}

/** `Files.Barrier`. */
export async function settleFiles(
  { watch }: WatchedWorkspace,
  { token }: FilesBarrierRequest,
  signal: AbortSignal,
): Promise<FilesBarrierResponse> {
  const outcome = await watch.barrier(token, signal);
  if (!(outcome instanceof Fault)) return create(FilesBarrierResponseSchema, { cursor: outcome });
  return create(FilesBarrierResponseSchema, { fault: toWireFault(outcome) });
}

/** How fresh what is known of a workspace is, as it travels. */
export function toWireFreshness(
  { state, fault, lastEventAtMs, lastScanAtMs, folders, covered }: Freshness,
  limit: WatchLimit | undefined,
): WorkspaceFreshness {
  const freshness = create(WorkspaceFreshnessSchema, {
    watch: state,
    lastEventMs: BigInt(Math.round(lastEventAtMs)),
    lastScanMs: BigInt(Math.round(lastScanAtMs)),
    folders: BigInt(folders),
    coveredFolders: BigInt(covered),
  });
  if (fault) freshness.fault = toWireFault(fault);
  if (limit) freshness.limit = create(WatchLimitSchema, toWireLimit(limit));
  return freshness;
}

function toWireLimit({
  limit,
  setting,
  used,
  isReached,
}: WatchLimit): MessageInitShape<typeof WatchLimitSchema> {
  return { limit: BigInt(limit), setting, used: BigInt(used), reached: isReached };
}
