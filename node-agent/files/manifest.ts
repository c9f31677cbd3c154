import { create } from "@bufbuild/protobuf";
import { digestOf, parseDigest } from "../../shared/content/digest.ts";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import {
  EntryKind,
  EntrySchema,
  type Entry as WireEntry,
  type FilesManifestRequest,
  type FilesManifestResponse,
  FilesManifestResponseSchema,
  ManifestTrailerSchema,
  SourceSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { appendPath, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import { requireDepth, requirePathBytes } from "../../shared/tree/tree-rules.ts";
import type { KnownFile, KnownLink } from "../workspace/known-tree.ts";
import type { Workspace } from "../workspace/open-workspace.ts";
import type { ShownFolder } from "../workspace/watch-log.ts";
import type {
  FolderState,
  Manifest,
  ManifestItem,
  WorkspaceManifest,
} from "../workspace/workspace-manifest.ts";
import { parseRequestPath, toWireProblem, toWireSource } from "./wire.ts";

/** One message holds so many entries, and about so many bytes of paths. */
const maxItems = 1000;
const maxPathBytes = 256 * 1024;

/** Where the digits of an identity end in a digest: enough of them to tell folders apart, and no number of a disk. */
const identityEnd = "sha256:".length + 32;

/** `Files.Manifest`. */
export async function* readManifest(
  { workspace, manifest }: { readonly workspace: Workspace; readonly manifest: WorkspaceManifest },
  request: FilesManifestRequest,
  signal: AbortSignal,
): AsyncGenerator<FilesManifestResponse, void> {
  const path = parseRequestPath(request.path);
  const { shallow: isShallow, knownDigest } = request;
  const known = knownDigest === "" ? "" : parseDigest(knownDigest, "knownDigest");
  const found = await manifest.read({ path, known, isShallow, signal });
  const { canonicalPath, digest } = found;
  for (const item of found.items) requireTransferable(workspace, canonicalPath, item);
  const first = create(FilesManifestResponseSchema, { digest, unchanged: digest === known });
  const source = { workspace: workspace.settings.name, requestedPath: path, canonicalPath };
  first.source = create(SourceSchema, toWireSource(source));
  const { device, inode, bornNs } = await workspace.root.stat(path);
  first.folderIdentity = digestOf(`${device}:${inode}:${bornNs}`).slice("sha256:".length, identityEnd);
  const tally = createTally(found);
  let message = first;
  let pathBytes = 0;
  for (const item of found.items) {
    tally.add(item);
    const { state } = item;
    if (state instanceof Fault) message.problems.push(toWireProblem({ path: item.path, fault: state }));
    else message.entries.push(toWireState(item.path, state));
    pathBytes += item.path.length * 3;
    const count = message.entries.length + message.problems.length;
    if (count < maxItems && pathBytes < maxPathBytes) continue;
    signal.throwIfAborted();
    // The permission may have been taken back since the message before.
    workspace.root.recheck("read", canonicalPath);
    yield message;
    message = create(FilesManifestResponseSchema);
    pathBytes = 0;
  }
  message.trailer = create(ManifestTrailerSchema, tally.counts);
  yield message;
}

/** The same limits as where the tree itself is read. */
function requireTransferable({ limits }: Workspace, top: WorkspacePath, { path, state }: ManifestItem): void {
  if (isFault(state, "LIMIT_REACHED")) throw state;
  requireDepth(path, { maxDepth: limits.treeDepth });
  requirePathBytes(appendPath(top, path));
}

interface Tally {
  add(item: ManifestItem): void;
  readonly counts: Record<"files" | "folders" | "links" | "sizeBytes" | "failed", bigint> & {
    readonly hashedFiles: bigint;
    readonly hashedBytes: bigint;
  };
}

function createTally({ hashed }: Manifest): Tally {
  const counts = {
    files: 0n,
    folders: 0n,
    links: 0n,
    sizeBytes: 0n,
    failed: 0n,
    hashedFiles: BigInt(hashed.files),
    hashedBytes: BigInt(hashed.bytes),
  };
  const add = ({ state }: ManifestItem): void => {
    if (state instanceof Fault) counts.failed += 1n;
    else if (state.kind === "folder") counts.folders += 1n;
    else if (state.kind === "link") counts.links += 1n;
    else {
      counts.files += 1n;
      counts.sizeBytes += BigInt(state.sizeBytes);
    }
  };
  return { add, counts };
}

const wireKinds = { file: EntryKind.FILE, folder: EntryKind.FOLDER, link: EntryKind.LINK } as const;

/** An entry as it is known. */
export function toWireState(
  path: string,
  state: KnownFile | KnownLink | ShownFolder | FolderState,
): WireEntry {
  return create(EntrySchema, {
    path,
    kind: wireKinds[state.kind],
    sizeBytes: state.kind === "file" ? BigInt(state.sizeBytes) : 0n,
    mode: state.mode,
    modifiedNs: state.mtimeNs,
    linkTarget: state.kind === "link" ? state.target : "",
    digest: "digest" in state ? (state.digest ?? "") : "",
  });
}
