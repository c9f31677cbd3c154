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
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { WatchLimit } from "../workspace/kernel-watches.ts";
import type { Workspace } from "../workspace/open-workspace.ts";
import type { Delivery, Freshness, SharedWatch } from "../workspace/shared-watch.ts";
import type { WorkspaceManifest } from "../workspace/workspace-manifest.ts";
import { FollowedPath } from "./followed-path.ts";
import { toWireState } from "./manifest.ts";
import { parseRequestPath, toWireSource } from "./wire.ts";

/** A workspace with its watch. */
export interface WatchedWorkspace {
  readonly workspace: Workspace;
  readonly watch: SharedWatch;
}

/** What a watch of a path is made of. */
export interface WatchedTree extends WatchedWorkspace {
  readonly manifest: WorkspaceManifest;
}

/** `Files.Watch`. */
export async function* watchFiles(
  watched: WatchedTree,
  request: FilesWatchRequest,
  signal: AbortSignal,
): AsyncGenerator<FilesWatchResponse, void> {
  const { workspace, watch, manifest } = watched;
  const path = parseRequestPath(request.path);
  watch.requireCursor(request.since);
  const followed = await FollowedPath.open({ workspace, manifest, path, signal });
  yield sourceMessage(watched, { path, canonicalPath: followed.canonicalPath ?? path });
  for await (const delivery of watch.subscribe(request.since, signal)) {
    // The permission may have been taken back since the event before.
    if (followed.canonicalPath !== undefined) workspace.root.recheck("read", followed.canonicalPath);
    const isTold = followed.concerns(delivery) && !isHidden(delivery, workspace);
    if (followed.mayLeadElsewhere(delivery)) yield* retell(watched, { followed, path, delivery, isTold });
    if (isTold) yield toWire(delivery, watch);
  }
}

function sourceMessage(
  { workspace }: WatchedWorkspace,
  { path, canonicalPath }: { readonly path: WorkspacePath; readonly canonicalPath: WorkspacePath },
): FilesWatchResponse {
  const source = { workspace: workspace.settings.name, requestedPath: path, canonicalPath };
  return create(FilesWatchResponseSchema, { source: create(SourceSchema, toWireSource(source)) });
}

interface Retelling {
  readonly followed: FollowedPath;
  /** As it was asked for. */
  readonly path: WorkspacePath;
  /** The event after which the path leads elsewhere. */
  readonly delivery: Delivery;
  /** Whether that is told of itself, behind what is told here. */
  readonly isTold: boolean;
}

/** Where a link on the way was made to lead elsewhere: what it led to is removed, what it leads to is there now. */
async function* retell(
  watched: WatchedTree,
  { followed, path, delivery, isTold }: Retelling,
): AsyncGenerator<FilesWatchResponse, void> {
  const { workspace, watch } = watched;
  if (!("tick" in delivery)) return;
  const { tick, cursor } = delivery;
  const from = followed.canonicalPath;
  const retold = (await followed.lookAgain(watch.lastTick)).filter(
    (one) => one.kind === "removed" || workspace.judge("read", one.path).decision === "allow",
  );
  const canonicalPath = followed.canonicalPath;
  let isMoved = canonicalPath === from;
  for (const [index, one] of retold.entries()) {
    if (one.kind === "created" && !isMoved && canonicalPath !== undefined) {
      isMoved = true;
      yield sourceMessage(watched, { path, canonicalPath });
    }
    const isLast = !isTold && index === retold.length - 1;
    const placed = { ...one, tick, cursor: isLast ? cursor : watch.cursorBefore(tick, index + 1) };
    yield toWire(placed, watch);
  }
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
