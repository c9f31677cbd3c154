import type { MessageInitShape } from "@bufbuild/protobuf";
import type { FilesListRequest, FilesListResponseSchema } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { compareByUtf8 } from "../../shared/names/byte-order.ts";
import { decodeListCursor, encodeListCursor, type ListScope } from "../../shared/names/list-cursor.ts";
import { requirePageLimit } from "../../shared/names/list-page.ts";
import { baseName, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { Entry, Problem, RootHandle } from "../../shared/root/root-handle.ts";
import type { Workspace } from "../workspace/open-workspace.ts";
import { parseRequestPath, toPins, toWireEntry, toWireProblem, toWireSource } from "./wire.ts";

type Response = MessageInitShape<typeof FilesListResponseSchema>;

/** A page stays well under what one message may hold, however long its names are. */
const maxPageBytes = 2 * 1024 * 1024;

/** `Files.List`: one page, of a folder or of the tree below it. */
export async function listFiles(
  workspace: Workspace,
  request: FilesListRequest,
  signal: AbortSignal,
): Promise<Response> {
  const path = parseRequestPath(request.path);
  const limit = requirePageLimit(request.limit);
  const scope: ListScope = { path, recursive: request.recursive };
  const after = request.cursor === "" ? undefined : decodeListCursor(scope, request.cursor);
  const page = createPage(limit);
  const read = request.recursive ? readTree : readFolder;
  const { canonicalPath, last } = await read(workspace.root.pinned(toPins([path, request.pin])), {
    path,
    page,
    after,
    signal,
    limit,
  });
  return {
    entries: page.entries.map((entry) => toWireEntry(entry)),
    problems: page.problems.map(toWireProblem),
    nextCursor: last === undefined ? "" : encodeListCursor(scope, last),
    source: toWireSource({ workspace: workspace.settings.name, requestedPath: path, canonicalPath }),
  };
}

interface Page {
  readonly entries: Entry[];
  readonly problems: Problem[];
  isFull(): boolean;
  add(item: Entry | Problem): void;
}

function createPage(limit: number): Page {
  const entries: Entry[] = [];
  const problems: Problem[] = [];
  let sizeBytes = 0;
  return {
    entries,
    problems,
    isFull: () => entries.length + problems.length >= limit || sizeBytes >= maxPageBytes,
    add: (item) => {
      sizeBytes += item.path.length * 3 + 64;
      if (!("fault" in item)) return void entries.push(item);
      problems.push(item);
      sizeBytes += 1024;
    },
  };
}

interface Reading {
  readonly path: WorkspacePath;
  readonly page: Page;
  readonly after: WorkspacePath | undefined;
  readonly signal: AbortSignal;
  readonly limit: number;
}

interface ReadPage {
  readonly canonicalPath: WorkspacePath;
  /** The last path of the page when more follow. */
  readonly last: string | undefined;
}

async function readFolder(
  root: RootHandle,
  { path, page, after, signal, limit }: Reading,
): Promise<ReadPage> {
  const listing = await root.list(path, {
    limit,
    signal,
    ...(after === undefined ? {} : { after: baseName(after) }),
  });
  const found = [...listing.entries, ...listing.problems].toSorted((a, b) => compareByUtf8(a.path, b.path));
  let last: string | undefined;
  for (const item of found) {
    if (page.isFull()) break;
    page.add(item);
    last = item.path;
  }
  const isWhole = page.entries.length + page.problems.length === found.length;
  const hasMore = listing.next !== undefined || !isWhole;
  return { canonicalPath: listing.canonicalPath, last: hasMore ? last : undefined };
}

async function readTree(root: RootHandle, { path, page, after, signal }: Reading): Promise<ReadPage> {
  const { canonicalPath } = await root.stat(path);
  let last: string | undefined;
  const from = after === undefined ? {} : { after };
  for await (const batch of root.walk(path, { signal, asListed: true, ...from })) {
    for (const item of batch) {
      const found = item.kind === "entry" ? item.entry : item.problem;
      // A folder that cannot be entered is an entry first and then a problem: both stand on one page.
      const isSamePath = item.kind === "problem" && found.path === (last ?? after);
      if (isSamePath && last === undefined) continue;
      if (page.isFull() && !isSamePath) return { canonicalPath, last };
      page.add(found);
      last = found.path;
    }
  }
  return { canonicalPath, last: undefined };
}
