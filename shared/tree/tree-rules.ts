import { isDigest, type Digest } from "../content/digest.ts";
import { Fault, isFault } from "../fault/fault.ts";
import { EntryKind } from "../gen/fairlead/v1/files_pb.ts";
import { pathNames, type WorkspacePath } from "../names/workspace-path.ts";

/** The digest of a file's trailer, which must have one. */
export function requireDigest(text: string): Digest {
  if (isDigest(text)) return text;
  throw malformed("a file comes without its digest");
}

/** An entry's kind in a word; what is neither folder nor link is taken for a file. */
export function kindWord(kind: EntryKind): "file" | "folder" | "link" {
  if (kind === EntryKind.FOLDER) return "folder";
  return kind === EntryKind.LINK ? "link" : "file";
}

/** A tree that breaks the rules of its messages. */
export function malformed(why: string): Fault {
  return new Fault("INTEGRITY_FAILURE", `the tree is malformed: ${why}`);
}

/** A file that stands already and is not the one that came. */
export function differs(path: WorkspacePath): Fault {
  return new Fault("ALREADY_EXISTS", `${path} exists already, with other content`, {
    details: { path },
    hint: "to replace what differs, repeat with --if-match any",
  });
}

/** Permission bits of a folder that is made: it is filled afterwards, so its owner may always enter and write. */
export function ownersMode(mode: number): number {
  return (mode & 0o777) | 0o700;
}

/** Fails with `LIMIT_REACHED` for a tree of more entries than its limit, 1,000,000 by default. */
export function requireEntries(count: number, limit = 1_000_000): void {
  if (count <= limit) return;
  throw new Fault("LIMIT_REACHED", `the tree has more than ${limit} entries`, {
    details: { limit, actual: count },
  });
}

/** Fails with `LIMIT_REACHED` for an entry of a tree that lies deeper than the limit, 64 folders by default. */
export function requireDepth(path: WorkspacePath, limit = 64): void {
  const depth = pathNames(path).length;
  if (depth <= limit + 1) return;
  throw new Fault("LIMIT_REACHED", `the tree is more than ${limit} folders deep`, {
    details: { limit, actual: depth },
  });
}

/** Whether a tree ended since the line it came on was lost: its sender may come back. */
export function isLineLost(error: unknown): boolean {
  return isFault(error, "NODE_OFFLINE") || isFault(error, "GATEWAY_UNREACHABLE");
}
