import { Fault, isFault } from "../../shared/fault/fault.ts";
import {
  appendPath,
  baseName,
  maxPathBytes,
  rootPath,
  type WorkspacePath,
} from "../../shared/names/workspace-path.ts";
import { createPause } from "../../shared/root/linux/pause.ts";
import {
  hardlinkRefused,
  pathEscapes,
  tooManyEntries,
  treePathTooLong,
  unsupportedType,
} from "../../shared/root/refusals.ts";
import type { Entry, HideRule, Listing, Problem } from "../../shared/root/root-handle.ts";
import {
  createFolder,
  identify,
  isRacy,
  type Known,
  type KnownFile,
  type KnownFolder,
  outdate,
  setEntry,
} from "./known-tree.ts";
import type { Workspace } from "./open-workspace.ts";

/** A difference between what was known of an entry and what the disk says. */
export interface TreeChange {
  readonly kind: "created" | "changed" | "removed";
  readonly path: WorkspacePath;
  /** As it is now; of what was removed, as it was. */
  readonly known: Known;
  /** As it was, for `changed`. */
  readonly before?: Known;
}

/** What a scan needs. */
export interface ScanOptions {
  readonly workspace: Pick<Workspace, "root" | "settings" | "limits" | "judge">;
  /** Told of each difference; what is new below a new folder follows it. */
  readonly onChange?: (change: TreeChange) => void;
  /** Told of each folder before it is listed: what happens from then on is to be heard of. */
  readonly onFolder?: (folder: KnownFolder, path: WorkspacePath) => Promise<void>;
  /** What was known of a file before this process began. */
  readonly recall?: (folder: WorkspacePath, name: string) => KnownFile | undefined;
  readonly signal: AbortSignal;
}

/** Brings everything from `top` on to what the disk says. Faults are those of `top` itself, and `LIMIT_REACHED`. */
export async function scanTree(top: KnownFolder, path: WorkspacePath, options: ScanOptions): Promise<void> {
  const { limits } = options.workspace;
  const pause = createPause(options.signal);
  const waiting: [KnownFolder, WorkspacePath][] = [[top, path]];
  let count = 0;
  // From the end: a level's folders are many more than the levels.
  for (let next = waiting.pop(); next; next = waiting.pop()) {
    const [folder, at] = next;
    await options.onFolder?.(folder, at);
    await scanFolder(folder, at, options);
    count += folder.entries.size;
    if (count > limits.treeEntries) throw tooManyEntries(limits.treeEntries, count);
    for (const [name, known] of folder.entries) {
      if (known.kind !== "folder" || known.fault) continue;
      const below = appendPath(at, name as WorkspacePath);
      const bytes = Buffer.byteLength(below);
      if (bytes > maxPathBytes) known.fault = treePathTooLong(maxPathBytes, bytes);
      else waiting.push([known, below]);
    }
    if (pause.isDue()) await pause.take();
  }
}

/**
 * Brings one folder's own entries to what the disk says; gives the folders that are new in it. One that cannot be listed
 * is a problem where it stands; that the root cannot be is a fault.
 */
export async function scanFolder(
  folder: KnownFolder,
  path: WorkspacePath,
  options: ScanOptions,
): Promise<readonly KnownFolder[]> {
  const listing = await tryList(folder, path, options);
  if (!listing) return [];
  const merge = new FolderMerge(folder, path, options);
  for (const entry of listing.entries) merge.take(entry);
  for (const problem of listing.problems) merge.fail(problem);
  await merge.dropMissing();
  folder.isListed = true;
  return merge.newFolders;
}

/** The same for some of a folder's names alone, where looking at all of them would cost more. */
export async function scanNames(
  folder: KnownFolder,
  path: WorkspacePath,
  { names, ...options }: ScanOptions & { readonly names: Iterable<string> },
): Promise<readonly KnownFolder[]> {
  const merge = new FolderMerge(folder, path, options);
  const unseen: string[] = [];
  for (const name of names) if (!(await merge.look(name))) unseen.push(name);
  if (unseen.length > 0) await lookUnfollowed(merge, { folder, path, options, names: new Set(unseen) });
  return merge.newFolders;
}

interface Unfollowed {
  readonly folder: KnownFolder;
  readonly path: WorkspacePath;
  readonly options: ScanOptions;
  readonly names: ReadonlySet<string>;
}

/** Where links are followed, only a listing tells of a link itself; what it does not name is gone. */
async function lookUnfollowed(
  merge: FolderMerge,
  { folder, path, options, names }: Unfollowed,
): Promise<void> {
  const { followSymlinks } = options.workspace.settings;
  const listing = followSymlinks ? await tryList(folder, path, { ...options, only: names }) : undefined;
  if (followSymlinks && !listing) return;
  const rest = new Set(names);
  for (const entry of listing?.entries ?? []) rest.delete(merge.take(entry));
  for (const problem of listing?.problems ?? []) rest.delete(merge.fail(problem));
  for (const name of rest) merge.drop(name);
}

async function tryList(
  folder: KnownFolder,
  path: WorkspacePath,
  { workspace, signal, onChange, only }: ScanOptions & { readonly only?: ReadonlySet<string> },
): Promise<Listing | undefined> {
  try {
    const hide: { hide?: HideRule } = only ? { hide: (entry) => !only.has(baseName(entry)) } : {};
    const listing = await workspace.root.list(path, { signal, ...hide });
    if (folder.fault) outdate(folder);
    folder.fault = undefined;
    return listing;
  } catch (error) {
    if (signal.aborted || !isFault(error) || path === rootPath) throw error;
    // Its parent knows best whether it is gone.
    if (error.code === "NOT_FOUND" || error.code === "NOT_A_DIRECTORY") return undefined;
    for (const [name, known] of folder.entries) {
      onChange?.({ kind: "removed", path: appendPath(path, name as WorkspacePath), known });
    }
    folder.entries.clear();
    folder.fault = error;
    outdate(folder);
    return undefined;
  }
}

class FolderMerge {
  readonly newFolders: KnownFolder[] = [];
  readonly #folder: KnownFolder;
  readonly #path: WorkspacePath;
  readonly #options: ScanOptions;
  readonly #seen = new Set<string>();

  constructor(folder: KnownFolder, path: WorkspacePath, options: ScanOptions) {
    this.#folder = folder;
    this.#path = path;
    this.#options = options;
  }

  /** One entry; gives its name. */
  take(entry: Entry): string {
    const name = this.#nameOf(entry.path);
    this.#put(name, this.#toKnown(name, entry));
    return name;
  }

  fail({ path, fault }: Problem): string {
    const name = this.#nameOf(path);
    this.#put(name, { kind: "problem", fault });
    return name;
  }

  #nameOf(path: string): string {
    return path.slice(this.#path === "" ? 0 : this.#path.length + 1);
  }

  /** A name that the listing left out may have been replaced in that moment: it is looked for once more. */
  async dropMissing(): Promise<void> {
    const missing = [...this.#folder.entries.keys()].filter((name) => !this.#seen.has(name));
    for (const name of missing) if (!(await this.look(name))) this.drop(name);
  }

  /** One name, whatever was known of it; gives whether something stands there that is no followed link. */
  async look(name: string): Promise<boolean> {
    const { workspace, signal } = this.#options;
    const path = appendPath(this.#path, name as WorkspacePath);
    const entry = await this.#tryStat(path, workspace);
    signal.throwIfAborted();
    if (entry) this.#put(name, this.#toKnown(name, entry));
    return entry !== undefined;
  }

  /** One name that nothing stands at any more. */
  drop(name: string): void {
    const known = this.#folder.entries.get(name);
    if (!known) return;
    setEntry(this.#folder, name, undefined);
    const path = appendPath(this.#path, name as WorkspacePath);
    this.#options.onChange?.({ kind: "removed", path, known });
  }

  async #tryStat(path: WorkspacePath, { root }: ScanOptions["workspace"]): Promise<Entry | undefined> {
    try {
      const listing = await root.stat(path);
      return listing.canonicalPath === path ? listing : undefined;
    } catch (error) {
      if (isFault(error)) return undefined;
      throw error;
    }
  }

  #put(name: string, known: Known): void {
    this.#seen.add(name);
    const before = this.#folder.entries.get(name);
    if (before === known) return;
    setEntry(this.#folder, name, known);
    const path = appendPath(this.#path, name as WorkspacePath);
    const { onChange } = this.#options;
    if (before && before.kind === known.kind && known.kind !== "folder") {
      if (isOther(before, known)) onChange?.({ kind: "changed", path, known, before });
      return;
    }
    if (known.kind === "folder") this.newFolders.push(known);
    if (before) onChange?.({ kind: "removed", path, known: before });
    onChange?.({ kind: "created", path, known });
  }

  #toKnown(name: string, entry: Entry): Known {
    const before = this.#folder.entries.get(name);
    switch (entry.kind) {
      case "folder":
        return this.#toFolder(name, entry, before);
      case "link":
        return this.#toLink(entry, before);
      case "file":
        if (entry.links > 1 && !this.#options.workspace.settings.allowHardLinks)
          return toProblem(hardlinkRefused(entry.path, entry.links), before);
        return this.#toFile(name, entry, before);
      case "other":
        return toProblem(unsupportedType(entry.path), before);
    }
  }

  #toFolder(name: string, entry: Entry, before: Known | undefined): Known {
    const id = identify(entry);
    // One that was only passed on the way to another was not looked at itself.
    const isSame = before?.kind === "folder" && (before.id === id || before.id === "");
    const folder = isSame ? before : createFolder(this.#folder, name);
    if (isSame && before.id !== "" && before.mode !== entry.mode) {
      outdate(this.#folder);
      this.#options.onChange?.({ kind: "changed", path: entry.path, known: folder, before: { ...before } });
    }
    folder.id = id;
    folder.mode = entry.mode;
    folder.mtimeNs = entry.mtimeNs;
    return folder;
  }

  #toLink(entry: Entry, before: Known | undefined): Known {
    const { linkTarget: target, linkLeadsTo: leadsTo } = entry;
    if (target === undefined) return toProblem(entry.linkFault ?? pathEscapes(entry.path), before);
    const { workspace } = this.#options;
    const isClosed =
      workspace.settings.followSymlinks &&
      leadsTo !== undefined &&
      workspace.judge("read", leadsTo).decision !== "allow";
    if (isClosed) return toProblem(leadsToClosed(entry.path), before);
    const isSame = before?.kind === "link" && before.target === target && isSameStamp(before, stampOf(entry));
    return isSame ? before : { kind: "link", target, ...stampOf(entry) };
  }

  #toFile(name: string, entry: Entry, before: Known | undefined): KnownFile {
    const known: KnownFile = { kind: "file", sizeBytes: entry.sizeBytes, ...stampOf(entry) };
    const old = before?.kind === "file" ? before : this.#options.recall?.(this.#path, name);
    if (!old || !isSameStamp(old, known)) return known;
    const { digest, hashedAtMs } = old;
    // What could not be read is tried again; what was read in the tick of its last change is read again.
    const isTrusted = digest !== undefined && hashedAtMs !== undefined && !isRacy(old, hashedAtMs);
    const isUnread = digest === undefined && !old.fault;
    if (old === before && old.mode === known.mode && (isTrusted || isUnread)) return old;
    return isTrusted ? { ...known, digest, hashedAtMs } : known;
  }
}

function leadsToClosed(path: string): Fault {
  return new Fault("POLICY_DENIED", `the link ${path} leads to what the node does not let be read`, {
    details: { path, side: "node" },
  });
}

function toProblem(fault: Fault, before: Known | undefined): Known {
  return before?.kind === "problem" && before.fault.code === fault.code ? before : { kind: "problem", fault };
}

function stampOf(entry: Entry): Pick<KnownFile, "mode" | "mtimeNs" | "ctimeNs" | "id"> {
  return { mode: entry.mode, mtimeNs: entry.mtimeNs, ctimeNs: entry.ctimeNs, id: identify(entry) };
}

type Stamped = Pick<KnownFile, "mtimeNs" | "ctimeNs" | "id"> & { readonly sizeBytes?: number };

function isSameStamp(a: Stamped, b: Stamped): boolean {
  return a.id === b.id && a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs && a.sizeBytes === b.sizeBytes;
}

/**
 * A record that was made again for its digest alone is no change to tell of, but where the digest may have been taken
 * before the last change: only reading the file will tell.
 */
function isOther(before: Known, now: Known): boolean {
  if (before.kind !== "file" || now.kind !== "file") return true;
  if (before.digest !== undefined && now.digest === undefined) return true;
  return !isSameStamp(before, now) || before.mode !== now.mode;
}
