import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import {
  type FilesReadTreeRequest,
  type FilesReadTreeResponse,
  FilesReadTreeResponseSchema,
  type FilesWriteTreeRequest,
  type FilesWriteTreeResponseSchema,
  SourceSchema,
  type WriteTreeHeader,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { createGlobSet } from "../../shared/names/glob.ts";
import { appendPath, relativePath, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { HideRule } from "../../shared/root/root-handle.ts";
import { freeReceived } from "../../shared/rpc/chunk-memory.ts";
import { packTreeParts } from "../../shared/tree/pack-parts.ts";
import { packTree } from "../../shared/tree/pack-tree.ts";
import { storeTree } from "../../shared/tree/store-tree.ts";
import type { TreePart } from "../../shared/tree/tree-part.ts";
import { requireExtent } from "../../shared/tree/tree-rules.ts";
import type { Workspace } from "../workspace/open-workspace.ts";
import { parseRequestPath, toPins, toWireProblem, toWireSource } from "./wire.ts";
import { toPrecondition } from "./write-file.ts";

type WriteResponse = MessageInitShape<typeof FilesWriteTreeResponseSchema>;

/** `Files.ReadTree`. */
export async function* readTree(
  workspace: Workspace,
  request: FilesReadTreeRequest,
  signal: AbortSignal,
): AsyncGenerator<FilesReadTreeResponse, void> {
  const path = parseRequestPath(request.path);
  const { settings } = workspace;
  const root = workspace.root.pinned(toPins([path, request.pin]));
  const { canonicalPath } = await root.stat(path);
  const hide = excluding(path, request.exclude);
  const { maxFileBytes } = settings;
  const parts = packTree({
    root,
    path,
    strict: request.strict,
    signal,
    ...(hide ? { hide } : {}),
    ...(request.only.length > 0 ? { only: parseOnly(path, request.only) } : {}),
    ...(maxFileBytes === undefined ? {} : { maxFileBytes }),
  });
  let isFirst = true;
  for await (const part of request.acceptsPacked ? packTreeParts(parts) : parts) {
    root.recheck("read", canonicalPath);
    const response = toReadResponse(part);
    if (isFirst)
      response.source = create(
        SourceSchema,
        toWireSource({ workspace: settings.name, requestedPath: path, canonicalPath }),
      );
    isFirst = false;
    yield response;
  }
}

function toReadResponse({
  entries,
  problems,
  fileTrailer,
  treeTrailer,
  content,
  packedBytes = 0,
}: TreePart): FilesReadTreeResponse {
  const response = create(FilesReadTreeResponseSchema, { content, packedBytes });
  response.entries = [...entries];
  response.problems = [...(problems ?? [])];
  if (fileTrailer) response.fileTrailer = fileTrailer;
  if (treeTrailer) response.treeTrailer = treeTrailer;
  return response;
}

const maxOnly = 10_000;

function parseOnly(path: WorkspacePath, only: readonly string[]): WorkspacePath[] {
  if (only.length > maxOnly) {
    throw new Fault("INVALID_ARGUMENT", `at most ${maxOnly} files of a tree can be named`, {
      details: { field: "only", limit: maxOnly, actual: only.length },
    });
  }
  return only.map((below) => appendPath(path, parseRequestPath(below, "only")));
}

/** The globs are of paths below the tree's folder. */
function excluding(path: WorkspacePath, patterns: readonly string[]): HideRule | undefined {
  if (patterns.length === 0) return undefined;
  const excluded = createGlobSet(patterns, { field: "exclude" });
  return (entry) => excluded.findItself(relativePath(entry, path)) !== undefined;
}

/** The messages of one tree to be stored, its header taken off. */
export interface WriteTreeStream {
  readonly header: WriteTreeHeader;
  readonly parts: AsyncIterable<TreePart>;
}

/** Takes the header, which must be in the first message. */
export async function takeTreeHeader(
  requests: AsyncIterable<FilesWriteTreeRequest>,
): Promise<WriteTreeStream> {
  const rest = requests[Symbol.asyncIterator]();
  const first = await rest.next();
  if (first.done === true || !first.value.header) {
    await rest.return?.();
    throw new Fault("INVALID_ARGUMENT", "a tree begins with its header", { details: { field: "header" } });
  }
  return { header: first.value.header, parts: followedBy(first.value, rest) };
}

async function* followedBy(
  first: FilesWriteTreeRequest,
  rest: AsyncIterator<FilesWriteTreeRequest>,
): AsyncGenerator<TreePart, void> {
  try {
    if (hasPart(first)) yield first;
    for (let next = await rest.next(); next.done !== true; next = await rest.next()) {
      yield next.value;
      freeReceived(next.value.content);
    }
  } finally {
    await rest.return?.();
  }
}

/** The header may come alone. */
function hasPart({ entries, fileTrailer, treeTrailer, content }: FilesWriteTreeRequest): boolean {
  return (
    entries.length > 0 || content.byteLength > 0 || fileTrailer !== undefined || treeTrailer !== undefined
  );
}

/** `Files.WriteTree`. */
export async function writeTree(
  workspace: Workspace,
  { header, parts }: WriteTreeStream,
  signal: AbortSignal,
): Promise<WriteResponse> {
  const path = parseRequestPath(header.path);
  const precondition = toPrecondition(header.precondition, "").kind;
  if (precondition === "match")
    throw new Fault("INVALID_ARGUMENT", "a tree has no single digest", {
      details: { field: "precondition" },
    });
  const { settings } = workspace;
  // Each entry is judged by itself, so a folder that only is not allowed may take some; a closed one takes none.
  const { rule } = workspace.judge("write", path);
  if (rule.startsWith("deny ") || rule === "own_state") workspace.root.recheck("write", path);
  const root = workspace.root.pinned(toPins([path, header.pin]));
  const { maxFileBytes } = settings;
  const { treeEntries: maxEntries, treeDepth: maxDepth } = workspace.limits;
  requireExtent(header.extent, path, { maxEntries, maxDepth });
  const { stored, problems, unchangedCount } = await storeTree(parts, {
    root,
    path,
    precondition: precondition === "absent" && header.keepEqual ? "absent_or_equal" : precondition,
    top: { mode: header.mode === 0 ? 0o755 : header.mode, mtimeNs: header.modifiedNs },
    strict: header.strict,
    maxEntries,
    maxDepth,
    signal,
    ...(maxFileBytes === undefined ? {} : { maxFileBytes }),
  });
  // Looked at as the write itself is judged: who may only write there is told where it went all the same.
  const { canonicalPath } = await workspace.root.preflight(path, {
    operation: "write",
    isTree: true,
    counts: false,
    signal,
  });
  return {
    stored,
    problems: problems.map(toWireProblem),
    unchanged: BigInt(unchangedCount),
    source: toWireSource({ workspace: settings.name, requestedPath: path, canonicalPath }),
  };
}
