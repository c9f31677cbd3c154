import type { Digest } from "../../shared/content/digest.ts";
import { digestFolder, type FolderDigestEntry } from "../../shared/content/folder-digest.ts";
import type { Fault } from "../../shared/fault/fault.ts";
import { sortByUtf8 } from "../../shared/names/byte-order.ts";
import { appendPath, pathNames, rootPath, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { Entry } from "../../shared/root/root-handle.ts";

/** What tells whether an entry is still what it was: its state as the disk gives it. */
interface Stamp {
  /** Permission bits. */
  readonly mode: number;
  readonly mtimeNs: bigint;
  readonly ctimeNs: bigint;
  /** Device and inode. */
  readonly id: string;
}

/** A file as it was last seen. A changed one is another record: who holds a record holds one moment of the file. */
export interface KnownFile extends Stamp {
  readonly kind: "file";
  readonly sizeBytes: number;
  /** Of its content, once it was read. */
  digest?: Digest;
  /** When reading for the digest began, in milliseconds since 1970. */
  hashedAtMs?: number;
  /** Why it could not be read. */
  fault?: Fault;
}

/** A link as it was last seen. */
export interface KnownLink extends Stamp {
  readonly kind: "link";
  readonly target: string;
}

/** What is there and cannot be served. */
export interface KnownProblem {
  readonly kind: "problem";
  readonly fault: Fault;
}

/** A folder as it was last seen; it stays the same object while the folder stays the same. */
export interface KnownFolder {
  readonly kind: "folder";
  parent: KnownFolder | undefined;
  name: string;
  mode: number;
  mtimeNs: bigint;
  /** Device and inode; empty until it was listed by its parent. */
  id: string;
  /** Whether its entries were ever listed. */
  isListed: boolean;
  /** Why it cannot be listed. */
  fault: Fault | undefined;
  readonly entries: Map<string, Known>;
  /** Of all that is below; undefined once something below has changed. */
  digest: Digest | undefined;
}

/** Anything that is known of an entry. */
export type Known = KnownFile | KnownLink | KnownProblem | KnownFolder;

/** A folder that nothing is known of but its name. */
export function createFolder(parent: KnownFolder | undefined, name: string): KnownFolder {
  return {
    kind: "folder",
    parent,
    name,
    mode: 0o755,
    mtimeNs: 0n,
    id: "",
    isListed: false,
    fault: undefined,
    entries: new Map(),
    digest: undefined,
  };
}

/** Device and inode as one text. */
export function identify({ device, inode }: Pick<Entry, "device" | "inode">): string {
  return `${device.toString(36)}.${inode.toString(36)}`;
}

/** The path of a folder that still hangs on `top`; undefined once it is gone. */
export function pathIn(top: KnownFolder, folder: KnownFolder): WorkspacePath | undefined {
  const names: string[] = [];
  let at = folder;
  while (at.parent) {
    if (at.parent.entries.get(at.name) !== at) return undefined;
    names.push(at.name);
    at = at.parent;
  }
  return at === top ? (names.toReversed().join("/") as WorkspacePath) : undefined;
}

/** The folder at `path` as far as it is known, or undefined. */
export function findFolder(top: KnownFolder, path: WorkspacePath): KnownFolder | undefined {
  let folder = top;
  for (const name of pathNames(path)) {
    const next = folder.entries.get(name);
    if (next?.kind !== "folder") return undefined;
    folder = next;
  }
  return folder;
}

/** The folder at `path`, with what leads to it made where it is not known yet. */
export function reachFolder(top: KnownFolder, path: WorkspacePath): KnownFolder {
  let folder = top;
  for (const name of pathNames(path)) {
    const next = folder.entries.get(name);
    const below = next?.kind === "folder" ? next : createFolder(folder, name);
    if (below !== next) setEntry(folder, name, below);
    folder = below;
  }
  return folder;
}

/** Puts an entry under a name, or takes it away; every digest above it is out of date then. */
export function setEntry(folder: KnownFolder, name: string, known: Known | undefined): void {
  if (known === undefined) folder.entries.delete(name);
  else folder.entries.set(name, known);
  outdate(folder);
}

/** Something in `folder` has changed. */
export function outdate(folder: KnownFolder): void {
  for (let at: KnownFolder | undefined = folder; at; at = at.parent) at.digest = undefined;
}

/** The entries in order of their names' UTF-8 bytes. */
export function sortedEntries(folder: KnownFolder): readonly (readonly [string, Known])[] {
  return sortByUtf8([...folder.entries], ([name]) => name);
}

/** The digest of all that is below; files that were not read count as what could not be read. */
export function digestOfFolder(folder: KnownFolder): Digest {
  folder.digest ??= digestFolder(sortedEntries(folder).map(([name, known]) => toDigestEntry(name, known)));
  return folder.digest;
}

function toDigestEntry(name: string, known: Known): FolderDigestEntry {
  switch (known.kind) {
    case "file":
      if (known.digest === undefined) return problemEntry(name, known.fault);
      return { kind: "file", name, mode: known.mode, content: known.digest };
    case "folder":
      if (known.fault) return problemEntry(name, known.fault);
      return { kind: "folder", name, mode: known.mode, content: digestOfFolder(known) };
    case "link":
      return { kind: "link", name, mode: 0, content: known.target };
    case "problem":
      return problemEntry(name, known.fault);
  }
}

function problemEntry(name: string, fault: Fault | undefined): FolderDigestEntry {
  return { kind: "problem", name, mode: 0, content: fault?.code ?? "" };
}

/** Every folder from `top` on, parents first. What is added below while it goes on is met as well. */
export function* eachFolder(
  top: KnownFolder,
  path: WorkspacePath = rootPath,
): Generator<readonly [KnownFolder, WorkspacePath]> {
  yield [top, path];
  for (const [name, known] of top.entries) {
    if (known.kind === "folder") yield* eachFolder(known, appendPath(path, name as WorkspacePath));
  }
}

/**
 * Whether a file may have changed again after its digest was taken without another time to show it: the change fell
 * into the same tick of the disk's clock as the reading. Times in whole seconds have ticks of up to two.
 */
export function isRacy({ ctimeNs }: Pick<KnownFile, "ctimeNs">, hashedAtMs: number): boolean {
  const tickMs = ctimeNs % 1_000_000_000n === 0n ? 2_000 : 50;
  return Number(ctimeNs / 1_000_000n) + tickMs >= hashedAtMs;
}
