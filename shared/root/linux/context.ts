import type { BigIntStats } from "node:fs";
import type { WorkspacePath } from "../../names/workspace-path.ts";
import type { FoundThing } from "../look.ts";
import {
  hardlinkRefused,
  notAFile,
  notFound,
  rootFault,
  symlinkRefused,
  unsupportedType,
} from "../refusals.ts";
import type { Entry, EntryKind, ResolveEvent, RootHooks } from "../root-handle.ts";
import type { StageMarker } from "../staged-name.ts";
import { type Descriptor, kindOf, openEntry } from "./descriptor.ts";
import type { KeptParts } from "./parts.ts";
import type { PathLocks } from "./path-locks.ts";
import type { Place, Start } from "./place.ts";

/** Looks at one path before it counts as removed: each takes microseconds, and a replacement has to fall into it. */
const maxLooks = 256;

/** A stage that has not ended. */
export interface RunningStage extends AsyncDisposable {
  /** Under which a part of it may be kept. */
  readonly partKey?: string | undefined;
  /** Nothing of it is to be kept, whatever is said later. */
  dropPart?(): void;
}

/** What all operations of one root share. */
export interface RootContext {
  readonly start: Start;
  readonly allowHardLinks: boolean;
  readonly hooks: RootHooks;
  readonly locks: PathLocks;
  readonly marker: StageMarker;
  /** Stages that are neither committed nor discarded. */
  readonly stages: Set<RunningStage>;
  readonly kept: KeptParts;
  /** Aborts when the root is closed. */
  readonly signal: AbortSignal;
}

/** An entry from a state. */
export function toEntry(
  path: WorkspacePath,
  stats: BigIntStats,
  more: Pick<Partial<Entry>, "canonicalPath" | "linkTarget" | "linkLeadsTo" | "linkFault"> = {},
): Entry {
  const kind: EntryKind = kindOf(stats);
  return {
    path,
    canonicalPath: more.canonicalPath ?? path,
    kind,
    sizeBytes: kind === "file" ? Number(stats.size) : 0,
    mode: Number(stats.mode) & 0o7777,
    mtimeNs: stats.mtimeNs,
    ctimeNs: stats.ctimeNs,
    inode: stats.ino,
    device: stats.dev,
    bornNs: stats.birthtimeNs,
    links: Number(stats.nlink),
    ...(more.linkTarget === undefined ? {} : { linkTarget: more.linkTarget }),
    ...(more.linkLeadsTo === undefined ? {} : { linkLeadsTo: more.linkLeadsTo }),
    ...(more.linkFault === undefined ? {} : { linkFault: more.linkFault }),
  };
}

/** What stands at a path. */
export function foundAt({ dev, ino, birthtimeNs }: BigIntStats): FoundThing {
  return { device: dev, inode: ino, bornNs: birthtimeNs, isThere: true };
}

/** Nothing stands at a path: the deepest folder on the way to it. */
export function foundAbove({ dev, ino, birthtimeNs }: BigIntStats): FoundThing {
  return { device: dev, inode: ino, bornNs: birthtimeNs, isThere: false };
}

/** The entry at `place`, named but not opened for reading. Fails with the errno's fault about `path`. */
export function openPlace(place: Place, path: WorkspacePath): Descriptor {
  try {
    return place.name === undefined ? place.folder.again() : openEntry(place.folder, place.name);
  } catch (error) {
    throw rootFault(error, path);
  }
}

/** Runs the hook that tests put between resolving and using. */
export function announce(
  context: RootContext,
  operation: ResolveEvent["operation"],
  path: WorkspacePath,
): void {
  context.hooks.afterResolve?.({ operation, path });
}

/**
 * What `look` finds, or gives up with undefined. A file that has no name left was replaced by another, or removed, between being found and being
 * opened: it is looked for again, so that a path where a file stands all the time is never `NOT_FOUND`.
 */
export function lookUntilNamed<T>(path: WorkspacePath, look: () => T | undefined): T {
  for (let tries = 0; tries < maxLooks; tries += 1) {
    const found = look();
    if (found !== undefined) return found;
  }
  throw notFound(path);
}

/** Whether a file that was found has no name any more. */
export function isNameless(stats: BigIntStats): boolean {
  return stats.isFile() && stats.nlink === 0n;
}

/** Refuses all but a regular file with one name (or more, where that is allowed). */
export function requireFile(context: RootContext, stats: BigIntStats, path: WorkspacePath): void {
  switch (kindOf(stats)) {
    case "link":
      throw symlinkRefused(path);
    case "folder":
      throw notAFile(path);
    case "other":
      throw unsupportedType(path);
    case "file":
      if (stats.nlink > 1n && !context.allowHardLinks) throw hardlinkRefused(path, Number(stats.nlink));
  }
}

/**
 * Whether two states are of one file whose content did not change between them. The change time tells of edits that
 * restore the modification time; it moves as well when a name is taken away or added, which changes no content.
 */
export function isSameContent(a: BigIntStats, b: BigIntStats): boolean {
  if (!isSameThing(a, b) || a.size !== b.size || a.mtimeNs !== b.mtimeNs) return false;
  return a.ctimeNs === b.ctimeNs || a.nlink !== b.nlink;
}

/** Whether two states are of one thing, changed or not. */
export function isSameThing(a: BigIntStats, b: BigIntStats): boolean {
  return a.ino === b.ino && a.dev === b.dev;
}
