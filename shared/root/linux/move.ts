import {
  type BigIntStats,
  chmodSync,
  linkSync,
  mkdirSync,
  renameSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
} from "node:fs";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import { Fault } from "../../fault/fault.ts";
import { leadsOut } from "../../names/link-target.ts";
import {
  baseName,
  isBeneath,
  relativePath,
  rootPath,
  type WorkspacePath,
} from "../../names/workspace-path.ts";
import type { FoundThing } from "../look.ts";
import {
  alreadyExists,
  notFound,
  pathChanged,
  pathEscapes,
  rootFault,
  rootRefused,
  unsupportedType,
} from "../refusals.ts";
import type { Entry, MakeFolderOptions, MakeLinkOptions, MoveOptions } from "../root-handle.ts";
import { createStagedName } from "../staged-name.ts";
import { announce, foundAbove, foundAt, isSameThing, type RootContext, toEntry } from "./context.ts";
import { at, type Descriptor, kindOf, openFolder, readLink, statEntry } from "./descriptor.ts";
import { prepareParent, removeMade, requireUsableName } from "./parents.ts";
import { findPlace, forChange, type Place } from "./place.ts";

/** What `move` takes: where from, where to, and who is asked. */
export interface Movement extends MoveOptions {
  readonly from: WorkspacePath;
  readonly to: WorkspacePath;
}

/**
 * `RootHandle.move`: one turn from the first look to the rename. Undefined, with nothing done, where the two lie on
 * different file systems.
 */
export function move(context: RootContext, { from, to, checkFrom, checkTo }: Movement): Entry | undefined {
  if (from === "" || to === "") throw rootRefused("moved or replaced");
  requireUsableName(to);
  using source = findPlace(forChange(context.start), from, "keep");
  using target = findPlace(forChange(context.start), to, "keep");
  const { canonicalPath } = target;
  if (isBeneath(canonicalPath, source.canonicalPath) && canonicalPath !== source.canonicalPath) {
    throw new Fault("INVALID_ARGUMENT", `${from} cannot be moved into itself`, { details: { field: "to" } });
  }
  announce(context, "move", from);
  const found = statEntry(source.folder, nameOf(source));
  checkFrom?.(source.canonicalPath, found ? foundAt(found) : foundAbove(source.folder.stat()));
  checkTo?.(canonicalPath, foundIn(target));
  if (!found) throw notFound(from);
  try {
    renameToNew(named(source, from), named(target, to), found);
  } catch (error) {
    if (errnoOf(error) === "EXDEV") return undefined;
    throw rootFault(error, errnoOf(error) === "ENOENT" ? from : to);
  }
  const stats = statEntry(target.folder, nameOf(target));
  if (!stats) throw pathChanged(to);
  return toEntry(to, stats, { canonicalPath });
}

interface Named {
  readonly folder: Descriptor;
  readonly name: string;
  readonly path: WorkspacePath;
}

/** Exclusive in each case: a second name for what is no folder, an empty folder made first for a folder. */
function renameToNew(source: Named, target: Named, stats: BigIntStats): void {
  const kind = kindOf(stats);
  if (kind === "other") throw unsupportedType(source.path);
  if (statEntry(target.folder, target.name)) throw alreadyExists(target.path);
  if (kind === "folder") return renameFolder(source, target, stats);
  try {
    linkSync(at(source.folder, source.name), at(target.folder, target.name));
  } catch (error) {
    if (errnoOf(error) === "EEXIST") throw alreadyExists(target.path);
    if (errnoOf(error) !== "EPERM" && errnoOf(error) !== "ENOTSUP") throw error;
    renameSync(at(source.folder, source.name), at(target.folder, target.name));
    return;
  }
  const moved = statEntry(target.folder, target.name);
  const left = statEntry(source.folder, source.name);
  if (moved && left && isSameThing(stats, moved) && isSameThing(stats, left)) {
    unlinkSync(at(source.folder, source.name));
    return;
  }
  if (moved && !isSameThing(stats, moved)) unlinkSync(at(target.folder, target.name));
  throw pathChanged(source.path);
}

function renameFolder(source: Named, target: Named, stats: BigIntStats): void {
  try {
    mkdirSync(at(target.folder, target.name), { mode: 0o700 });
  } catch (error) {
    if (errnoOf(error) === "EEXIST") throw alreadyExists(target.path);
    throw error;
  }
  try {
    renameSync(at(source.folder, source.name), at(target.folder, target.name));
  } catch (error) {
    rmdirSync(at(target.folder, target.name));
    throw error;
  }
  const moved = statEntry(target.folder, target.name);
  if (moved && isSameThing(stats, moved)) return;
  // Another one took its place in the last moment: it goes back where it was.
  if (moved) renameSync(at(target.folder, target.name), at(source.folder, source.name));
  throw pathChanged(source.path);
}

function foundIn(place: Place): FoundThing {
  const stats = statEntry(place.folder, nameOf(place));
  return stats ? foundAt(stats) : foundAbove(place.folder.stat());
}

function nameOf(place: Place): string {
  if (place.name === undefined) throw rootRefused("moved or replaced");
  return place.name;
}

function named(place: Place, path: WorkspacePath): Named {
  return { folder: place.folder, name: nameOf(place), path };
}

/** `RootHandle.makeFolder`. */
export function makeFolder(context: RootContext, path: WorkspacePath, options: MakeFolderOptions): Entry {
  if (path === "") throw alreadyExists(path);
  using parent = prepareParent(context, path, {
    createParents: options.parents ?? false,
    check: options.check,
  });
  const name = baseName(parent.canonicalPath);
  announce(context, "make-folder", path);
  try {
    const isNew = makeOne(parent.folder, name, { ...options, path });
    using made = openFolder(parent.folder, name);
    // Exactly these bits, whatever this process takes away from new folders.
    if (isNew && options.mode !== undefined) chmodSync(made.path, options.mode);
    return toEntry(path, made.stat(), { canonicalPath: parent.canonicalPath });
  } catch (error) {
    removeMade(context, parent.made);
    throw rootFault(error, path);
  }
}

/** Whether it was made; else it stands there already. */
function makeOne(
  folder: Descriptor,
  name: string,
  options: MakeFolderOptions & { readonly path: WorkspacePath },
): boolean {
  try {
    mkdirSync(at(folder, name), { mode: options.mode ?? 0o755 });
    return true;
  } catch (error) {
    if (errnoOf(error) !== "EEXIST") throw error;
    const isFolder = statEntry(folder, name)?.isDirectory() === true;
    if (options.allowExisting !== true || !isFolder) throw alreadyExists(options.path);
    return false;
  }
}

/** What `makeLink` takes: the link, its text, and the options. */
export interface LinkToMake extends MakeLinkOptions {
  readonly path: WorkspacePath;
  readonly target: string;
}

/** `RootHandle.makeLink`. */
export function makeLink(context: RootContext, link: LinkToMake): Entry {
  const { path, target } = link;
  if (path === "") throw alreadyExists(path);
  requireInside(link);
  using parent = prepareParent(context, path, { createParents: false, check: link.check });
  const name = baseName(parent.canonicalPath);
  announce(context, "make-link", path);
  try {
    if (!hasLink(parent.folder, name, target)) linkTo(context, parent.folder, { ...link, name });
    const stats = statEntry(parent.folder, name);
    if (stats) return toEntry(path, stats, { canonicalPath: parent.canonicalPath, linkTarget: target });
  } catch (error) {
    throw rootFault(error, path);
  }
  throw pathChanged(path);
}

/** No link is ever followed without being judged again. */
function requireInside({ path, target, within }: LinkToMake): void {
  const top = within ?? rootPath;
  if (!isBeneath(path, top)) throw new Error("the link does not lie beneath its folder");
  if (leadsOut(relativePath(path, top), target)) throw pathEscapes(path);
}

function hasLink(folder: Descriptor, name: string, target: string): boolean {
  return statEntry(folder, name)?.isSymbolicLink() === true && readLink(folder, name) === target;
}

function linkTo(
  context: RootContext,
  folder: Descriptor,
  link: LinkToMake & { readonly name: string },
): void {
  const { name, path, target } = link;
  const old = statEntry(folder, name);
  if (!old) return symlinkSync(target, at(folder, name));
  if (!old.isSymbolicLink() || link.replace !== true) throw alreadyExists(path);
  const staged = createStagedName(context.marker);
  symlinkSync(target, at(folder, staged));
  try {
    renameSync(at(folder, staged), at(folder, name));
  } catch (error) {
    unlinkSync(at(folder, staged));
    throw error;
  }
}
