import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import {
  EntryKind,
  EntryProblemSchema,
  EntrySchema,
  type Entry as WireEntry,
  type EntryProblem,
  type SourceSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { parseWorkspacePath, toPathPlatform, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { Entry, Problem } from "../../shared/root/root-handle.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";

/** The wire's word for each kind of entry. */
const wireKinds = {
  file: EntryKind.FILE,
  folder: EntryKind.FOLDER,
  link: EntryKind.LINK,
  other: EntryKind.OTHER,
} as const;

/** An entry as it travels; its digest where the content was read. */
export function toWireEntry(entry: Entry, digest = ""): WireEntry {
  return create(EntrySchema, {
    path: entry.path,
    kind: wireKinds[entry.kind],
    sizeBytes: BigInt(entry.sizeBytes),
    mode: entry.mode,
    modifiedNs: entry.mtimeNs,
    linkTarget: entry.linkTarget ?? "",
    digest,
  });
}

/** A problem as it travels. */
export function toWireProblem({ path, fault }: Problem): EntryProblem {
  return create(EntryProblemSchema, { path, fault: toWireFault(fault) });
}

/** Where an answer comes from; the gateway adds the node. */
export interface AnswerSource {
  readonly workspace: string;
  readonly requestedPath: WorkspacePath;
  readonly canonicalPath: WorkspacePath;
}

/** The source as it travels. */
export function toWireSource(source: AnswerSource): MessageInitShape<typeof SourceSchema> {
  return { nodeId: "", ...source };
}

/** A path of a request, by the rules of this machine. */
export function parseRequestPath(text: string, field = "path"): WorkspacePath {
  return parseWorkspacePath(text, { platform: toPathPlatform(process.platform), field });
}

/** A 64-bit count of a request as a number; one that no file can have is `INVALID_ARGUMENT`. */
export function toCount(value: bigint, field: string): number {
  if (value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value);
  throw new Fault(
    "INVALID_ARGUMENT",
    `${field} is ${value}; at most ${Number.MAX_SAFE_INTEGER} is possible`,
    {
      details: { field },
    },
  );
}
