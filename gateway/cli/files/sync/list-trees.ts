import { createDigester, digestOf } from "../../../../shared/content/digest.ts";
import { Fault, isFault } from "../../../../shared/fault/fault.ts";
import {
  EntryKind,
  type Entry as WireEntry,
  type Source,
} from "../../../../shared/gen/fairlead/v1/files_pb.ts";
import { createGlobSet, type GlobSet } from "../../../../shared/names/glob.ts";
import {
  parentPath,
  pathAndParents,
  relativePath,
  rootPath,
  type WorkspacePath,
} from "../../../../shared/names/workspace-path.ts";
import type { Entry, RootHandle } from "../../../../shared/root/root-handle.ts";
import { fromWireFault } from "../../../../shared/rpc/fault-wire.ts";
import { createTreeNames } from "../../../../shared/tree/tree-names.ts";
import { chunkBytes, maxInlineBytes, type TreeProblem } from "../../../../shared/tree/tree-part.ts";
import { kindWord, requireEntries } from "../../../../shared/tree/tree-rules.ts";
import type { Remote } from "../remote.ts";
import type { Transfer } from "../transfer.ts";
import type { SyncEntry } from "./sync-entry.ts";
import type { KnownFile, SyncState } from "./sync-state.ts";

/** A tree as it was found. */
export interface FoundTree {
  /** Undefined when the folder is not there. */
  readonly identity: string | undefined;
  readonly entries: ReadonlyMap<string, SyncEntry>;
  /** Paths that are there and were left out; not what is below them. */
  readonly leftOut: readonly string[];
  readonly problems: readonly TreeProblem[];
}

/** A tree of a node. */
export interface RemoteTree extends FoundTree {
  /** Of all that is in it; empty when it is not there. */
  readonly digest: string;
  /** All entries, those that are left out as well. */
  readonly all: readonly SyncEntry[];
  readonly source: Source | undefined;
}

/** A tree of this machine. */
export interface LocalTree extends FoundTree {
  readonly files: ReadonlyMap<string, KnownFile>;
}

/** Which paths are left out: those that a glob means, and all that is below them. */
export interface Exclusion {
  readonly globs: GlobSet;
}

/** Compiles the globs; faults as `createGlob`. */
export function createExclusion(patterns: readonly string[]): Exclusion {
  return { globs: createGlobSet(patterns, { field: "exclude" }) };
}

/** A tree that is not there. */
export const nothingFound: FoundTree = { identity: undefined, entries: new Map(), leftOut: [], problems: [] };

/** The tree at a remote path: its digest alone travels where it is the one that is remembered. */
export async function listRemote(
  transfer: Transfer,
  remote: Remote,
  { state, exclusion }: { readonly state: SyncState | undefined; readonly exclusion: Exclusion },
): Promise<RemoteTree> {
  const { workspace, path } = remote;
  const knownDigest = state?.remoteDigest ?? "";
  let identity: string | undefined;
  let digest = "";
  let source: Source | undefined;
  let isWhole = false;
  let all: SyncEntry[] = [];
  const problems: TreeProblem[] = [];
  const names = createTreeNames();
  try {
    for await (const part of transfer.files.manifest({ workspace, path, knownDigest }, transfer.call)) {
      if (part.digest !== "") {
        identity = part.folderIdentity;
        digest = part.digest;
        source = part.source;
      }
      if (part.unchanged && state) all = [...state.remoteEntries];
      for (const entry of part.entries) {
        try {
          all.push({ ...fromWire(entry), path: names.take(entry) });
        } catch (error) {
          if (!isFault(error)) throw error;
          problems.push({ path: entry.path, fault: error });
        }
      }
      requireEntries(all.length + problems.length + part.problems.length, {});
      for (const { path: at, fault } of part.problems) {
        problems.push({
          path: at,
          fault: fault ? fromWireFault(fault) : new Fault("INTERNAL", "no reason was given"),
        });
      }
      isWhole = part.trailer !== undefined;
    }
  } catch (error) {
    if (!isFault(error, "NOT_FOUND")) throw error;
    return { ...nothingFound, digest: "", all: [], source: undefined };
  }
  if (!isWhole)
    throw new Fault("INTEGRITY_FAILURE", "the manifest was cut off before its end", {
      hint: "repeat the command",
    });
  // What could not be read is part of the digest, and is to be said again the next time.
  return {
    identity,
    digest: problems.length === 0 ? digest : "",
    all,
    ...leaveOut(all, exclusion),
    problems,
    source,
  };
}

function fromWire(entry: WireEntry): SyncEntry {
  const kind = kindWord(entry.kind);
  return {
    path: entry.path,
    kind,
    sizeBytes: Number(entry.sizeBytes),
    mode: entry.mode,
    modifiedNs: entry.modifiedNs,
    content: kind === "link" ? entry.linkTarget : entry.kind === EntryKind.FILE ? entry.digest : "",
  };
}

/** Whether a path is left out, for itself or for a folder above it. */
export function isLeftOut(path: string, { globs }: Exclusion): boolean {
  for (const at of pathAndParents(path as WorkspacePath))
    if (at !== rootPath && globs.findItself(at) !== undefined) return true;
  return false;
}

function leaveOut(all: readonly SyncEntry[], { globs }: Exclusion): Pick<FoundTree, "entries" | "leftOut"> {
  const entries = new Map<string, SyncEntry>();
  const leftOut: string[] = [];
  const out = new Set<string>();
  for (const entry of all) {
    const path = entry.path as WorkspacePath;
    const isBelow = out.has(parentPath(path) ?? rootPath);
    if (!isBelow && globs.findItself(path) === undefined) {
      entries.set(path, entry);
      continue;
    }
    if (!isBelow) leftOut.push(path);
    if (entry.kind === "folder") out.add(path);
  }
  return { entries, leftOut };
}

/** A change so young may be followed by another one with the same time: its digest is not remembered. In nanoseconds. */
const tickNs = 50_000_000n;

/** What listing a tree of this machine takes. */
export interface ListLocalOptions {
  /** The tree's folder below the root; the root itself by default. */
  readonly path?: WorkspacePath;
  readonly exclusion: Exclusion;
  readonly known: ReadonlyMap<string, KnownFile>;
  readonly nowMs: number;
  readonly signal: AbortSignal;
}

/** The tree of this machine; only what is new or changed is read. */
export async function listLocal(root: RootHandle, options: ListLocalOptions): Promise<LocalTree> {
  const { exclusion, known, nowMs, signal, path: top = rootPath } = options;
  const entries = new Map<string, SyncEntry>();
  const files = new Map<string, KnownFile>();
  const problems: TreeProblem[] = [];
  const leftOut: string[] = [];
  const hide = (path: WorkspacePath): boolean => {
    const at = relativePath(path, top);
    if (exclusion.globs.findItself(at) === undefined) return false;
    leftOut.push(at);
    return true;
  };
  const youngNs = BigInt(Math.trunc(nowMs)) * 1_000_000n - tickNs;
  for await (const batch of root.walk(top, { hide, signal })) {
    for (const item of batch) {
      if (item.kind === "problem") {
        problems.push({ ...item.problem, path: belowTop(item.problem.path, top) });
        continue;
      }
      const { entry } = item;
      const path = relativePath(entry.path, top);
      try {
        const file =
          entry.kind === "file" ? await digestFile(root, entry, { path, known, signal }) : undefined;
        entries.set(path, { ...toSyncEntry(entry, file?.digest), path });
        if (file && file.changedNs < youngNs) files.set(path, file);
      } catch (error) {
        if (!isFault(error) || signal.aborted) throw error;
        problems.push({ path, fault: error });
      }
    }
  }
  const { device, inode, bornNs } = root.identity;
  return { identity: `${device}:${inode}:${bornNs}`, entries, leftOut, files, problems };
}

/** A problem's path may be no path that can be asked for, but it begins with the tree's as every other. */
function belowTop(path: string, top: WorkspacePath): string {
  return top !== "" && path.startsWith(`${top}/`) ? path.slice(top.length + 1) : path;
}

function toSyncEntry(entry: Entry, digest = ""): SyncEntry {
  const { path, kind, sizeBytes, mode, mtimeNs } = entry;
  if (kind === "other") throw new Fault("UNSUPPORTED_FILE_TYPE", `${path} is no file`, { details: { path } });
  const content = kind === "link" ? (entry.linkTarget ?? "") : digest;
  return { path, kind, sizeBytes, mode, modifiedNs: mtimeNs, content };
}

interface Digesting {
  /** As the tree has it. */
  readonly path: string;
  readonly known: ReadonlyMap<string, KnownFile>;
  readonly signal: AbortSignal;
}

async function digestFile(
  root: RootHandle,
  entry: Entry,
  { path, known, signal }: Digesting,
): Promise<KnownFile> {
  const now = {
    sizeBytes: entry.sizeBytes,
    modifiedNs: entry.mtimeNs,
    changedNs: entry.ctimeNs,
    inode: entry.inode,
  };
  const before = known.get(path);
  if (before && isSame(before, now)) return before;
  if (entry.sizeBytes <= maxInlineBytes) {
    const { content } = root.readSmall(entry.path, { maxBytes: maxInlineBytes });
    return { ...now, digest: digestOf(content) };
  }
  await using file = await root.openFile(entry.path);
  const digester = createDigester();
  const buffer = Buffer.allocUnsafe(Math.min(chunkBytes, entry.sizeBytes + 1));
  for (;;) {
    signal.throwIfAborted();
    const count = await file.read(buffer, digester.sizeBytes);
    if (count === 0) return { ...now, digest: digester.digest() };
    digester.update(buffer.subarray(0, count));
  }
}

function isSame(a: Omit<KnownFile, "digest">, b: Omit<KnownFile, "digest">): boolean {
  if (a.sizeBytes !== b.sizeBytes || a.modifiedNs !== b.modifiedNs) return false;
  return a.changedNs === b.changedNs && a.inode === b.inode;
}

/** What of a tree is known of after entries came from elsewhere: each that stands there as it was to be. */
export async function knowArrived(
  root: RootHandle,
  arrived: ReadonlyMap<string, SyncEntry>,
  signal: AbortSignal,
): Promise<Map<string, KnownFile>> {
  const files = new Map<string, KnownFile>();
  for await (const batch of root.walk(rootPath, { signal })) {
    for (const item of batch) {
      if (item.kind === "problem") continue;
      const { path, sizeBytes, mtimeNs, ctimeNs, inode } = item.entry;
      const wanted = arrived.get(path);
      if (wanted?.kind !== "file" || wanted.sizeBytes !== sizeBytes) continue;
      // Whoever changed it since has moved its time: that of the source was set to the microsecond.
      if (wanted.modifiedNs / 1000n !== mtimeNs / 1000n) continue;
      const digest = wanted.content;
      files.set(path, { sizeBytes, modifiedNs: mtimeNs, changedNs: ctimeNs, inode, digest });
    }
  }
  return files;
}
