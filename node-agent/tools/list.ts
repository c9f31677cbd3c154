import { create, type JsonObject, type MessageInitShape } from "@bufbuild/protobuf";
import { FaultSchema } from "../../shared/gen/fairlead/v1/fault_pb.ts";
import {
  EntryKind,
  FilesListRequestSchema,
  type EntryProblemSchema,
  type EntrySchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { visibleText } from "../../shared/log/safe-text.ts";
import { listPage } from "../../shared/names/list-page.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import { findNumber, findText, toResult, type RunTool, type ToolFiles } from "./tool-run.ts";

const kinds: Readonly<Record<EntryKind, string>> = {
  [EntryKind.UNSPECIFIED]: "other",
  [EntryKind.FILE]: "file",
  [EntryKind.FOLDER]: "folder",
  [EntryKind.LINK]: "link",
  [EntryKind.OTHER]: "other",
};

/** `list`: a page of a folder's entries, or of everything below it. */
export function createList(files: Pick<ToolFiles, "list">): RunTool {
  return async function* list(run) {
    const path = findText(run.arguments, "path") ?? "";
    const limit = findNumber(run.arguments, "limit") ?? listPage.entries;
    const request = create(FilesListRequestSchema, {
      workspace: run.workspace,
      leaseEpoch: run.leaseEpoch,
      path,
      recursive: run.arguments["recursive"] === true,
      limit,
      cursor: findText(run.arguments, "cursor") ?? "",
    });
    const answer = await files.list(request, run.context);
    const entries = (answer.entries ?? []).map(toEntry);
    const problems = (answer.problems ?? []).map(toProblem);
    const cursor = answer.nextCursor ?? "";
    const more = cursor === "" ? [] : [`… more follow; go on with the cursor ${cursor}`];
    const lines = [
      ...(answer.entries ?? []).map(toLine),
      ...problems.map((problem) => `${visibleText(problem.path)}\t(${problem.code})`),
    ];
    yield toResult([...lines, ...more].join("\n"), {
      path,
      entries,
      problems: [...problems],
      truncated: cursor !== "",
      ...(cursor === "" ? {} : { cursor, limit }),
    });
  };
}

type Entry = MessageInitShape<typeof EntrySchema>;

function toLine(entry: Entry): string {
  // One line an entry, whatever its name holds; the details have the name as it is.
  const path = visibleText(entry.path ?? "");
  if (entry.kind === EntryKind.FOLDER) return `${path}/`;
  if (entry.kind === EntryKind.LINK) return `${path}\t-> ${visibleText(entry.linkTarget ?? "")}`;
  return entry.kind === EntryKind.FILE ? `${path}\t${entry.sizeBytes ?? 0n}` : path;
}

function toEntry(entry: Entry): JsonObject {
  const kind = kinds[entry.kind ?? EntryKind.UNSPECIFIED] ?? "other";
  return {
    path: entry.path ?? "",
    kind,
    ...(kind === "file" ? { sizeBytes: Number(entry.sizeBytes ?? 0n) } : {}),
    ...(kind === "link" ? { linkTarget: entry.linkTarget ?? "" } : {}),
  };
}

function toProblem(problem: MessageInitShape<typeof EntryProblemSchema>): { path: string; code: string } {
  return { path: problem.path ?? "", code: fromWireFault(create(FaultSchema, problem.fault)).code };
}
