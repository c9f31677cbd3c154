import { create } from "@bufbuild/protobuf";
import {
  EntryKind,
  EntrySchema,
  TreeEntrySchema,
  type TreeEntry,
} from "../../../../shared/gen/fairlead/v1/files_pb.ts";
import { sortByUtf8 } from "../../../../shared/names/byte-order.ts";
import { maxPackEntries, type TreePart } from "../../../../shared/tree/tree-part.ts";
import { createTreeTally } from "../../../../shared/tree/tree-tally.ts";
import type { Change } from "./plan-sync.ts";
import type { SyncEntry } from "./sync-entry.ts";

/** An entry that is made without content: a folder, a link, or a copy of a file that the target has. */
export interface Bare {
  readonly change: Change;
  /** Where the content is. */
  readonly copyFrom?: string;
}

/** The kinds of entries as they travel. */
export const entryKinds: Readonly<Record<SyncEntry["kind"], EntryKind>> = {
  file: EntryKind.FILE,
  folder: EntryKind.FOLDER,
  link: EntryKind.LINK,
};
const noContent = new Uint8Array();

/** What must stand at the target for a change to be made: what stood there when it was planned. */
export function conditionOf({ entry, standing }: Change): string {
  if (entry.kind !== "file") return "";
  return standing?.kind === "file" ? standing.content : "absent";
}

/** The messages of a tree of entries without content. */
export function* bareParts(bares: readonly Bare[]): Generator<TreePart> {
  const tally = createTreeTally();
  const sorted = sortByUtf8(bares, ({ change }) => change.entry.path);
  for (let at = 0; at < sorted.length; at += maxPackEntries) {
    const entries = sorted.slice(at, at + maxPackEntries).map(toTreeEntry);
    for (const { entry } of entries) if (entry) tally.add(entry);
    yield { entries, content: noContent };
  }
  yield { entries: [], content: noContent, treeTrailer: tally.trailer(0n) };
}

function toTreeEntry({ change, copyFrom = "" }: Bare): TreeEntry {
  const { entry } = change;
  return create(TreeEntrySchema, { entry: toWire(entry), copyFrom, ifMatch: conditionOf(change) });
}

function toWire(entry: SyncEntry): ReturnType<typeof create<typeof EntrySchema>> {
  const { path, kind, sizeBytes, mode, modifiedNs, content } = entry;
  return create(EntrySchema, {
    path,
    kind: entryKinds[kind],
    sizeBytes: BigInt(sizeBytes),
    mode,
    // A folder's time is that of what comes into it.
    modifiedNs: kind === "folder" ? 0n : modifiedNs,
    linkTarget: kind === "link" ? content : "",
    digest: kind === "file" ? content : "",
  });
}

/** The parts of files with what must stand where they go. */
export async function* withConditions<P extends TreePart>(
  parts: AsyncIterable<P>,
  changes: ReadonlyMap<string, Change>,
): AsyncGenerator<P, void> {
  for await (const part of parts) {
    for (const item of part.entries) {
      const change = changes.get(item.entry?.path ?? "");
      if (change) item.ifMatch = conditionOf(change);
    }
    yield part;
  }
}

/** Notes the digest of each file that passes, by its path. */
export async function* tellSent<P extends TreePart>(
  parts: AsyncIterable<P>,
  sent: Map<string, string>,
): AsyncGenerator<P, void> {
  let streamed = "";
  for await (const part of parts) {
    for (const { entry, streamed: follows } of part.entries) {
      if (entry?.kind !== EntryKind.FILE) continue;
      if (follows) streamed = entry.path;
      else sent.set(entry.path, entry.digest);
    }
    if (part.fileTrailer && part.fileTrailer.digest !== "") sent.set(streamed, part.fileTrailer.digest);
    yield part;
  }
}
