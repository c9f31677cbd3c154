import { isDigest, type Digest } from "../content/digest.ts";
import { Fault, isFault } from "../fault/fault.ts";
import { type Entry, EntryKind, type TreeExtent } from "../gen/fairlead/v1/files_pb.ts";
import { maxPathBytes, pathNames, type WorkspacePath } from "../names/workspace-path.ts";
import { tooManyEntries, treePathTooLong, treeTooDeep } from "../root/refusals.ts";

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

/** What a tree may have at the most. */
export interface TreeBounds {
  /** 1,000,000 by default. */
  readonly maxEntries?: number | undefined;
  /** 64 by default. */
  readonly maxDepth?: number | undefined;
}

/** Fails with `LIMIT_REACHED` for a tree of more entries than its limit. */
export function requireEntries(count: number, { maxEntries = 1_000_000 }: TreeBounds): void {
  if (count > maxEntries) throw tooManyEntries(maxEntries, count);
}

/** Fails with `LIMIT_REACHED` for an entry that lies deeper in its tree than the limit: its path has more names. */
export function requireDepth(path: WorkspacePath, { maxDepth = 64 }: TreeBounds): void {
  const depth = pathNames(path).length;
  if (depth > maxDepth) throw treeTooDeep(maxDepth, depth, path);
}

/** Fails with `LIMIT_REACHED` for a path longer than any may be. */
export function requirePathBytes(path: string): void {
  const bytes = Buffer.byteLength(path);
  if (bytes > maxPathBytes) throw treePathTooLong(maxPathBytes, bytes);
}

/**
 * Fails with `LIMIT_REACHED` for a tree that is beyond the limits by what is said of it, where it would stand at `path`:
 * as storing it would fail, before anything of it is sent.
 */
export function requireExtent(extent: TreeExtent | undefined, path: WorkspacePath, bounds: TreeBounds): void {
  if (!extent) return;
  const { maxDepth = 64 } = bounds;
  requireEntries(Number(extent.entries), bounds);
  if (extent.depth > maxDepth) throw treeTooDeep(maxDepth, extent.depth);
  const bytes = Number(extent.pathBytes) + (path === "" ? 0 : Buffer.byteLength(path) + 1);
  if (bytes > maxPathBytes) throw treePathTooLong(maxPathBytes, bytes);
}

/** Fails with `TOO_LARGE` for a file of a size that no file has: who announces it is not to be listened to. */
export function requirePossible({ path, sizeBytes }: Pick<Entry, "path" | "sizeBytes">): void {
  if (sizeBytes <= BigInt(Number.MAX_SAFE_INTEGER)) return;
  throw new Fault("TOO_LARGE", `${path} is announced with ${sizeBytes} bytes, which no file has`, {
    details: { path, limit: Number.MAX_SAFE_INTEGER, actual: Number(sizeBytes) },
  });
}

/** Whether a tree ended since the line it came on was lost: its sender may come back. */
export function isLineLost(error: unknown): boolean {
  return isFault(error, "NODE_OFFLINE") || isFault(error, "GATEWAY_UNREACHABLE");
}
