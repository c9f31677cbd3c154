import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import {
  EntryKind,
  EntryProblemSchema,
  EntrySchema,
  FileOperation as WireOperation,
  type Entry as WireEntry,
  type EntryProblem,
  type Pin as WirePin,
  type SourceSchema,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { parseWorkspacePath, toPathPlatform, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { Entry, Problem } from "../../shared/root/root-handle.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { FileOperation } from "../workspace/file-policy.ts";
import type { Pin } from "../workspace/pin.ts";

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

const operations: Readonly<Partial<Record<WireOperation, FileOperation>>> = {
  [WireOperation.READ]: "read",
  [WireOperation.WRITE]: "write",
  [WireOperation.WRITE_TREE]: "write",
  [WireOperation.REMOVE]: "remove",
  [WireOperation.MOVE]: "move",
  [WireOperation.MAKE_FOLDER]: "mkdir",
};

/** The operation of a request; `INVALID_ARGUMENT` for one that is not known. */
export function toOperation(word: WireOperation): FileOperation {
  const operation = operations[word];
  if (operation) return operation;
  throw new Fault("INVALID_ARGUMENT", "the request does not say what would be done", {
    details: { field: "operation" },
  });
}

/** The pins of a request, each with the path that it is for. */
export function toPins(...given: readonly (readonly [WorkspacePath, WirePin | undefined])[]): readonly Pin[] {
  return given.flatMap(([path, pin]) =>
    pin ? [{ path, canonicalPath: pin.canonicalPath, identity: pin.identity }] : [],
  );
}

/** A path of a request, by the rules of this machine. */
export function parseRequestPath(text: string, field = "path"): WorkspacePath {
  return parseWorkspacePath(text, { platform: toPathPlatform(process.platform), field });
}
