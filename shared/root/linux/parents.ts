import { mkdirSync, rmdirSync } from "node:fs";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import { Fault, isFault } from "../../fault/fault.ts";
import {
  appendPath,
  baseName,
  parentPath,
  pathNames,
  type WorkspacePath,
} from "../../names/workspace-path.ts";
import type { FoundThing } from "../look.ts";
import { rootFault } from "../refusals.ts";
import type { CanonicalCheck } from "../root-handle.ts";
import { isStagedName } from "../staged-name.ts";
import { foundAbove, foundAt, type RootContext } from "./context.ts";
import { at, type Descriptor, openFolder, statEntry } from "./descriptor.ts";
import { findPlace, forChange, type OpenedFolder, openFolderAt, type Start } from "./place.ts";

/** The folder that is to hold an entry, and the folders that were made to have it. */
export interface PreparedParent extends OpenedFolder {
  /** The entry's own canonical path. */
  readonly canonicalPath: WorkspacePath;
  /** From the top down. */
  readonly made: readonly WorkspacePath[];
  /** The deepest folder that was there before. */
  readonly above: FoundThing;
}

/** What `prepareParent` takes. */
export interface PrepareOptions {
  readonly createParents: boolean;
  /** Asked with the entry's canonical path before any folder is made. */
  readonly check?: CanonicalCheck | undefined;
}

/** Opens the folder that holds `path`, making what is missing of it where that is asked for. The caller disposes it. */
export function prepareParent(
  context: RootContext,
  path: WorkspacePath,
  options: PrepareOptions,
): PreparedParent {
  requireUsableName(path);
  const found = findDeepest(forChange(context.start), path, options.createParents);
  let { folder } = found;
  const made: WorkspacePath[] = [];
  try {
    const canonicalPath = appendPath(
      found.canonicalPath,
      [...found.missing, baseName(path)].join("/") as WorkspacePath,
    );
    const above = foundAbove(folder.stat());
    const stats = found.missing.length > 0 ? undefined : statEntry(folder, baseName(path));
    options.check?.(canonicalPath, stats ? foundAt(stats) : above);
    let parent = found.canonicalPath;
    for (const name of found.missing) {
      parent = appendPath(parent, name as WorkspacePath);
      const child = makeAndEnter(folder, name, { path: parent, made });
      folder[Symbol.dispose]();
      folder = child;
    }
    return { folder, canonicalPath, made, above, [Symbol.dispose]: () => folder[Symbol.dispose]() };
  } catch (error) {
    folder[Symbol.dispose]();
    removeMade(context, made);
    throw error;
  }
}

/** Names of staged files are ours alone. */
export function requireUsableName(path: WorkspacePath): void {
  const position = pathNames(path).findIndex(isStagedName);
  if (position < 0) return;
  throw new Fault("PATH_INVALID", `${path} has a name that is kept for files being written`, {
    details: { field: "path", position: pathNames(path).slice(0, position).join("/").length },
  });
}

interface Deepest {
  readonly folder: Descriptor;
  readonly canonicalPath: WorkspacePath;
  readonly missing: readonly string[];
}

/** Opens the folder that holds `path`, or with `createParents` the deepest one on the way that is there. */
export function findDeepest(start: Start, path: WorkspacePath, createParents: boolean): Deepest {
  const missing: string[] = [];
  for (let folderPath = parentPath(path) ?? path; ;) {
    try {
      const { folder, canonicalPath } = openFolderAt(start, folderPath);
      return { folder, canonicalPath, missing };
    } catch (error) {
      const above = parentPath(folderPath);
      if (!createParents || above === undefined || !isFault(error, "NOT_FOUND")) throw error;
      missing.unshift(baseName(folderPath));
      folderPath = above;
    }
  }
}

interface Making {
  readonly path: WorkspacePath;
  readonly made: WorkspacePath[];
}

function makeAndEnter(folder: Descriptor, name: string, { path, made }: Making): Descriptor {
  try {
    mkdirSync(at(folder, name), { mode: 0o777 });
    made.push(path);
  } catch (error) {
    // Somebody else made it meanwhile: as good, if it is a folder.
    if (errnoOf(error) !== "EEXIST") throw rootFault(error, path);
  }
  try {
    return openFolder(folder, name);
  } catch (error) {
    throw rootFault(error, path);
  }
}

/** Takes away folders that were made for a write that failed; one that others use by now stays. */
export function removeMade(context: RootContext, made: readonly WorkspacePath[]): void {
  for (const path of made.toReversed()) {
    try {
      using place = findPlace(context.start, path, "keep");
      if (place.name !== undefined) rmdirSync(at(place.folder, place.name));
    } catch {
      return;
    }
  }
}
