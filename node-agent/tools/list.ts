import { create, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import {
  countFitting,
  formatListing,
  type ListedItem,
  type ListingRest,
} from "../../shared/core-tools/listing.ts";
import { FaultSchema } from "../../shared/gen/fairlead/v1/fault_pb.ts";
import {
  EntryKind,
  type FilesListRequest,
  FilesListRequestSchema,
  type FilesListResponseSchema,
  type EntryProblemSchema,
  type EntrySchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { compareByUtf8 } from "../../shared/names/byte-order.ts";
import { encodeListCursor } from "../../shared/names/list-cursor.ts";
import { listPage } from "../../shared/names/list-page.ts";
import { parseWorkspacePath, toPathPlatform } from "../../shared/names/workspace-path.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import { findNumber, findText, toResult, type RunTool, type ToolFiles, type ToolRun } from "./tool-run.ts";

const kinds: Readonly<Record<EntryKind, string>> = {
  [EntryKind.UNSPECIFIED]: "other",
  [EntryKind.FILE]: "file",
  [EntryKind.FOLDER]: "folder",
  [EntryKind.LINK]: "link",
  [EntryKind.OTHER]: "other",
};

/** Entries behind a listing that are counted at the most. */
export const maxCounted = 100_000;

/** `list`: of a folder's entries, or of everything below it, as many as fit, how many are left out, and a cursor. */
export function createList(files: Pick<ToolFiles, "list">): RunTool {
  return async function* list(run) {
    const path = findText(run.arguments, "path") ?? "";
    const request = toRequest(run, path);
    const answer = await files.list(request, run.context);
    const found = group(answer);
    const more = answer.nextCursor === "" ? 0 : await countBehind(files, request, { run, answer });
    const scope = {
      path: parseWorkspacePath(path, { platform: toPathPlatform(process.platform) }),
      recursive: request.recursive,
    };
    const restAfter = (item: ListedItem, left: number): ListingRest => ({
      cursor: encodeListCursor(scope, item.path),
      left: Math.min(left, maxCounted),
      isMore: left > maxCounted,
    });
    const count = countFitting(found, { restAfter, beyond: more });
    const shown = found.slice(0, count);
    const left = found.length - count + more;
    const last = shown.at(-1);
    const rest = last && left > 0 ? restAfter(last, left) : undefined;
    yield toResult(formatListing(shown, rest), {
      path,
      canonicalPath: answer.source?.canonicalPath ?? path,
      entries: shown.flatMap((item) => (item.kind === undefined ? [] : [toEntry(item)])),
      problems: shown.flatMap(({ path: at, code }) => (code === undefined ? [] : [{ path: at, code }])),
      truncated: rest !== undefined,
      ...(rest ? { ...toDetails(rest), limit: request.limit ?? listPage.entries } : {}),
    });
  };
}

function toDetails({ cursor, left, isMore }: ListingRest): JsonObject {
  return { cursor, left, ...(isMore ? { moreThan: true } : {}) };
}

function toRequest(run: ToolRun, path: string): FilesListRequest {
  return create(FilesListRequestSchema, {
    workspace: run.workspace,
    leaseEpoch: run.leaseEpoch,
    ...(run.pin ? { pin: run.pin } : {}),
    path,
    recursive: run.arguments["recursive"] === true,
    limit: findNumber(run.arguments, "limit") ?? listPage.entries,
    cursor: findText(run.arguments, "cursor") ?? "",
  });
}

type Page = MessageInitShape<typeof FilesListResponseSchema>;

/** The entries of a page with their problems, in the order of a walk: a cursor goes on behind any of them. */
function group({ entries = [], problems = [] }: Page): readonly ListedItem[] {
  const byPath = new Map<string, ListedItem>();
  for (const entry of entries) byPath.set(entry.path ?? "", toItem(entry));
  for (const problem of problems) {
    const path = problem.path ?? "";
    byPath.set(path, { path, ...byPath.get(path), code: codeOf(problem) });
  }
  return [...byPath.values()].toSorted((a, b) => compareWalked(a.path, b.path));
}

/** A folder stands before what is in it, and all of that before the next name. */
function compareWalked(a: string, b: string): number {
  const [one, other] = [a.split("/"), b.split("/")];
  for (const [index, name] of one.entries()) {
    const against = other[index];
    if (against === undefined) return 1;
    const order = compareByUtf8(name, against);
    if (order !== 0) return order;
  }
  return one.length - other.length;
}

/** How many entries follow behind a page; no more than just over the bound are counted. */
async function countBehind(
  files: Pick<ToolFiles, "list">,
  request: FilesListRequest,
  { run, answer }: { readonly run: ToolRun; readonly answer: Page },
): Promise<number> {
  let count = 0;
  let cursor = answer.nextCursor ?? "";
  while (cursor !== "" && count <= maxCounted) {
    const page = await files.list({ ...request, cursor, limit: listPage.maxEntries }, run.context);
    count += group(page).length;
    cursor = page.nextCursor ?? "";
  }
  return count;
}

function toItem(entry: MessageInitShape<typeof EntrySchema>): ListedItem {
  const kind = kinds[entry.kind ?? EntryKind.UNSPECIFIED] ?? "other";
  return {
    path: entry.path ?? "",
    kind,
    ...(kind === "file" ? { sizeBytes: Number(entry.sizeBytes ?? 0n) } : {}),
    ...(kind === "link" ? { linkTarget: entry.linkTarget ?? "" } : {}),
  };
}

function toEntry({ path, kind, sizeBytes, linkTarget }: ListedItem): JsonObject {
  return {
    path,
    kind: kind ?? "other",
    ...(sizeBytes === undefined ? {} : { sizeBytes }),
    ...(linkTarget === undefined ? {} : { linkTarget }),
  };
}

function codeOf(problem: MessageInitShape<typeof EntryProblemSchema>): string {
  return fromWireFault(create(FaultSchema, problem.fault)).code;
}
