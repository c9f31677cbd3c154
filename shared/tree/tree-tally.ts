import { create } from "@bufbuild/protobuf";
import { createTreeDigester } from "../content/tree-digest.ts";
import { Fault } from "../fault/fault.ts";
import { EntryKind, TreeTrailerSchema, type Entry, type TreeTrailer } from "../gen/fairlead/v1/files_pb.ts";

/** What a tally needs of an entry. */
export type TalliedEntry = Pick<Entry, "path" | "kind" | "mode" | "sizeBytes" | "linkTarget" | "digest">;

/** Counts and digests a tree as its entries pass by, in order. */
export interface TreeTally {
  /** A folder, a link, or a file whose digest is known. */
  add(entry: TalliedEntry): void;
  /** The closing message of what was tallied, beside `failed` entries that were not. */
  trailer(failed: bigint): TreeTrailer;
}

/** A tally of nothing. */
export function createTreeTally(): TreeTally {
  const digester = createTreeDigester();
  const counts = { files: 0n, folders: 0n, links: 0n };
  let sizeBytes = 0n;
  return {
    add: (entry) => {
      const kind = kindOf(entry);
      counts[`${kind}s`] += 1n;
      if (kind === "file") sizeBytes += entry.sizeBytes;
      const content = kind === "link" ? entry.linkTarget : kind === "file" ? entry.digest : "";
      digester.add({ kind, path: entry.path, mode: entry.mode, content });
    },
    trailer: (failed) =>
      create(TreeTrailerSchema, { ...counts, sizeBytes, failed, digest: digester.digest() }),
  };
}

function kindOf(entry: TalliedEntry): "file" | "folder" | "link" {
  if (entry.kind === EntryKind.FILE) return "file";
  if (entry.kind === EntryKind.FOLDER) return "folder";
  if (entry.kind === EntryKind.LINK) return "link";
  throw new Fault("INVALID_ARGUMENT", `the tree holds an entry of no known kind: ${entry.path}`, {
    details: { path: entry.path },
  });
}

/** Fails with `INTEGRITY_FAILURE` unless the closing message says what was tallied. */
export function assertTrailer(tally: TreeTally, said: TreeTrailer): void {
  const counted = tally.trailer(said.failed);
  const same =
    counted.files === said.files &&
    counted.folders === said.folders &&
    counted.links === said.links &&
    counted.sizeBytes === said.sizeBytes &&
    counted.digest === said.digest;
  if (same) return;
  throw new Fault("INTEGRITY_FAILURE", "the tree that arrived is not the one that was announced at its end", {
    details: { expected: said.digest, actual: counted.digest },
  });
}
