import { parseDigest } from "../../shared/content/digest.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { EntryKind, FileOperation, type Files, type Pin } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { ServiceImplementation } from "../../shared/rpc/service.ts";
import { kindWord, requireExtent } from "../../shared/tree/tree-rules.ts";
import type { Exports, ExportState } from "../workspace/exports.ts";
import type { Manifests } from "../workspace/manifests.ts";
import type { Workspace } from "../workspace/open-workspace.ts";
import { identityOf } from "../workspace/pin.ts";
import { readChunkLists } from "./chunks.ts";
import { listFiles } from "./list-files.ts";
import { readManifest } from "./manifest.ts";
import { dropPart, findPart } from "./parts.ts";
import { readFile } from "./read-file.ts";
import { readTree, takeTreeHeader, writeTree } from "./trees.ts";
import { settleFiles, toWireFreshness, watchFiles } from "./watch.ts";
import { parseRequestPath, toOperation, toPins, toWireEntry, toWireSource } from "./wire.ts";
import { takeHeader, writeFile } from "./write-file.ts";

type FileManifests = Pick<Manifests, "of" | "watchOf" | "freshness" | "limit">;
type FilesMethods = Required<ServiceImplementation<typeof Files>>;

/** The machine's files, behind its own policy: what its gateway and its own tools call. */
export function createFiles(exports: Exports, manifests: FileManifests): FilesMethods {
  return {
    ...readMethods(exports, manifests),
    ...changeMethods(exports),
    ...compareMethods(exports, manifests),
  };
}

/** Finds the workspace; the call ends when the caller leaves or the export ends. */
async function enter(
  exports: Exports,
  place: { readonly workspace: string; readonly leaseEpoch: bigint },
  signal: AbortSignal,
): Promise<{ readonly workspace: Workspace; readonly signal: AbortSignal }> {
  signal.throwIfAborted();
  const workspace = await exports.get(place.workspace);
  // What was meant for an earlier registration is not done under this one, whatever its settings are.
  if (place.leaseEpoch !== 0n && place.leaseEpoch !== BigInt(workspace.epoch))
    throw registeredAnew(place.workspace);
  return { workspace, signal: AbortSignal.any([signal, workspace.signal]) };
}

function registeredAnew(workspace: string): Fault {
  return new Fault(
    "WORKSPACE_ACCESS_UNAVAILABLE",
    `the workspace ${workspace} was exported anew since its lease was given`,
    { details: { reason: "stopped", workspace, side: "node" }, hint: "repeat the command" },
  );
}

function readMethods(
  exports: Exports,
  manifests: FileManifests,
): Pick<FilesMethods, "listExports" | "stat" | "list" | "preflight" | "read" | "readTree" | "listChunks"> {
  return {
    listExports: async () => ({
      exports: exports.list().map((one) => ({
        ...toWireExport(one),
        freshness: toWireFreshness(manifests.freshness(one.settings.name), manifests.limit()),
      })),
    }),
    stat: async (request, context) => {
      const { workspace } = await enter(exports, request, context.signal);
      const path = parseRequestPath(request.path);
      const entry = await workspace.root.pinned(toPins([path, request.pin])).stat(path);
      const { canonicalPath } = entry;
      const source = toWireSource({ workspace: request.workspace, requestedPath: path, canonicalPath });
      return { entry: toWireEntry(entry), source };
    },
    list: async (request, context) => {
      const { workspace, signal } = await enter(exports, request, context.signal);
      return listFiles(workspace, request, signal);
    },
    preflight: async (request, context) => {
      const { workspace, signal } = await enter(exports, request, context.signal);
      const path = parseRequestPath(request.path);
      const operation = toOperation(request.operation);
      const { treeEntries: maxEntries, treeDepth: maxDepth } = workspace.limits;
      requireExtent(request.extent, path, { maxEntries, maxDepth });
      const { entry, canonicalPath, found, below } = await workspace.root.preflight(path, {
        operation,
        isTree: request.countBelow || request.operation === FileOperation.WRITE_TREE,
        counts: request.countBelow,
        followFolders: request.bootstrap,
        signal,
      });
      return {
        ...(entry ? { entry: toWireEntry(entry) } : {}),
        source: toWireSource({ workspace: request.workspace, requestedPath: path, canonicalPath }),
        identity: identityOf(found),
        below: BigInt(below),
      };
    },
    read: async function* (request, context) {
      const { workspace, signal } = await enter(exports, request, context.signal);
      yield* readFile(workspace, request, signal);
    },
    listChunks: async function* (request, context) {
      const { workspace, signal } = await enter(exports, request, context.signal);
      yield* readChunkLists(workspace, request, signal);
    },
    readTree: async function* (request, context) {
      const { workspace, signal } = await enter(exports, request, context.signal);
      yield* readTree(workspace, request, signal);
    },
  };
}

function compareMethods(
  exports: Exports,
  manifests: FileManifests,
): Pick<FilesMethods, "manifest" | "watch" | "barrier"> {
  return {
    watch: async function* (request, context) {
      const { workspace, signal } = await enter(exports, request, context.signal);
      await requirePinned(workspace, request);
      const watched = {
        workspace,
        watch: manifests.watchOf(workspace),
        manifest: manifests.of(workspace),
      };
      yield* watchFiles(watched, request, signal);
    },
    barrier: async (request, context) => {
      const { workspace, signal } = await enter(exports, request, context.signal);
      return settleFiles({ workspace, watch: manifests.watchOf(workspace) }, request, signal);
    },
    manifest: async function* (request, context) {
      const { workspace, signal } = await enter(exports, request, context.signal);
      await requirePinned(workspace, request);
      yield* readManifest({ workspace, manifest: manifests.of(workspace) }, request, signal);
    },
  };
}

function changeMethods(
  exports: Exports,
): Pick<FilesMethods, "write" | "writeTree" | "remove" | "move" | "makeFolder" | "findPart" | "dropPart"> {
  return {
    write: async (requests, context) => {
      const stream = await takeHeader(requests);
      const { workspace, signal } = await enter(exports, stream.header, context.signal);
      return writeFile(workspace, stream, signal);
    },
    writeTree: async (requests, context) => {
      const stream = await takeTreeHeader(requests);
      const { workspace, signal } = await enter(exports, stream.header, context.signal);
      return writeTree(workspace, stream, signal);
    },
    findPart: async (request, context) => {
      const { workspace, signal } = await enter(exports, request, context.signal);
      return findPart(workspace, request, signal);
    },
    dropPart: async (request, context) => {
      const { workspace, signal } = await enter(exports, request, context.signal);
      return dropPart(workspace, request, signal);
    },
    remove: async (request, context) => {
      const { workspace, signal } = await enter(exports, request, context.signal);
      const path = parseRequestPath(request.path);
      const ifMatch = request.ifMatch === "" ? undefined : parseDigest(request.ifMatch, "ifMatch");
      let canonicalPath = path;
      const root = workspace.root.pinned(toPins([path, request.pin]));
      const removed = await root.remove(path, {
        recursive: request.recursive,
        signal,
        check: (found) => void (canonicalPath = found),
        ...(ifMatch === undefined ? {} : { ifMatch }),
        ...(request.ifKind === EntryKind.UNSPECIFIED ? {} : { ifKind: kindWord(request.ifKind) }),
        ...(request.ifLinkTarget === "" ? {} : { ifLinkTarget: request.ifLinkTarget }),
      });
      const source = toWireSource({ workspace: request.workspace, requestedPath: path, canonicalPath });
      return { removed: BigInt(removed), source };
    },
    move: async (request, context) => {
      const { workspace, signal } = await enter(exports, request, context.signal);
      const from = parseRequestPath(request.from, "from");
      const to = parseRequestPath(request.to, "to");
      const root = workspace.root.pinned(toPins([from, request.fromPin], [to, request.toPin]));
      const { canonicalPath } = await root.move(from, to, { signal });
      return { source: toWireSource({ workspace: request.workspace, requestedPath: to, canonicalPath }) };
    },
    makeFolder: async (request, context) => {
      const { workspace } = await enter(exports, request, context.signal);
      const path = parseRequestPath(request.path);
      const root = workspace.root.pinned(toPins([path, request.pin]));
      const entry = await root.makeFolder(path, { parents: request.parents });
      const { canonicalPath } = entry;
      const source = toWireSource({ workspace: request.workspace, requestedPath: path, canonicalPath });
      return { entry: toWireEntry(entry), source };
    },
  };
}

/** Of what goes by the paths of a manifest: that it begins at what was allowed. */
async function requirePinned(
  workspace: Workspace,
  request: { readonly path: string; readonly pin?: Pin | undefined },
): Promise<void> {
  if (!request.pin) return;
  const path = parseRequestPath(request.path);
  await workspace.root.pinned(toPins([path, request.pin])).stat(path);
}

function toWireExport({ settings, epoch, fault, containment, folding }: ExportState): {
  workspace: string;
  writable: boolean;
  containment: string;
  state: string;
  leaseEpoch: bigint;
  reason: string;
  ignoresCase: boolean;
  ignoresForm: boolean;
  acceptsPacked: boolean;
} {
  return {
    workspace: settings.name,
    writable: settings.write.length > 0,
    containment: containment ?? "",
    state: fault ? "unavailable" : "available",
    leaseEpoch: BigInt(epoch),
    reason: fault ? fault.message : "",
    ignoresCase: folding?.case ?? false,
    ignoresForm: folding?.form ?? false,
    acceptsPacked: true,
  };
}
