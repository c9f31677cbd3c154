import { Fault } from "../../fault/fault.ts";
import { compareByUtf8, sortByUtf8 } from "../../names/byte-order.ts";
import { appendPath, maxPathBytes, type WorkspacePath } from "../../names/workspace-path.ts";
import { rootFault, treePathTooLong } from "../refusals.ts";
import type {
  Entry,
  HideRule,
  Listing,
  ListOptions,
  OpenFolder,
  OperationOptions,
  Problem,
} from "../root-handle.ts";
import { isStagedName } from "../staged-name.ts";
import { announce, foundAt, openPlace, type RootContext, toEntry } from "./context.ts";
import { type Descriptor, type NamedEntry, readFolder, showName, statEntry } from "./descriptor.ts";
import { judgeLink, type LinkVerdict } from "./links.ts";
import { createPause } from "./pause.ts";
import { findPlace, openFolderAt } from "./place.ts";

/** `RootHandle.stat`. A link is its own entry where links are not followed. */
export function stat(context: RootContext, path: WorkspacePath, options: OperationOptions): Entry {
  using place = findPlace(context.start, path, "follow");
  announce(context, "stat", path);
  using named = openPlace(place, path);
  const canonicalPath = place.canonicalPath;
  const stats = named.stat();
  options.check?.(canonicalPath, foundAt(stats));
  if (!stats.isSymbolicLink() || place.name === undefined) return toEntry(path, stats, { canonicalPath });
  const { folder, name } = place;
  const verdict = judgeLink({ ...context.start, below: canonicalPath, folder, name, path });
  return toEntry(path, stats, {
    canonicalPath,
    ...shownLink(verdict),
  });
}

function shownLink(verdict: LinkVerdict): Pick<Entry, "linkTarget" | "linkLeadsTo" | "linkFault"> {
  if ("fault" in verdict) return { linkFault: verdict.fault };
  return { linkTarget: verdict.target, linkLeadsTo: verdict.leadsTo };
}

/** `RootHandle.openFolder`. */
export function openFolder(context: RootContext, path: WorkspacePath, options: OperationOptions): OpenFolder {
  const opened = openFolderAt(context.start, path);
  try {
    announce(context, "list", path);
    options.check?.(opened.canonicalPath, foundAt(opened.folder.stat()));
    return {
      canonicalPath: opened.canonicalPath,
      procPath: opened.folder.pathForOthers,
      [Symbol.asyncDispose]: async () => opened[Symbol.dispose](),
    };
  } catch (error) {
    opened[Symbol.dispose]();
    throw error;
  }
}

/** `RootHandle.list`. */
export async function list(
  context: RootContext,
  path: WorkspacePath,
  options: ListOptions,
): Promise<Listing> {
  using opened = openFolderAt(context.start, path);
  announce(context, "list", path);
  const { folder, canonicalPath } = opened;
  options.check?.(canonicalPath, foundAt(folder.stat()));
  const names = sortNames(readNames(folder, path), options.after);
  const entries: Entry[] = [];
  const problems: Problem[] = [];
  const pause = createPause(
    options.signal ? AbortSignal.any([options.signal, context.signal]) : context.signal,
  );
  const limit = options.limit ?? Infinity;
  let last: string | undefined;
  for (const named of names) {
    if (entries.length + problems.length >= limit) {
      return { canonicalPath, entries, problems, ...(last === undefined ? {} : { next: last }) };
    }
    const found = look({
      context,
      folder,
      named,
      parent: path,
      canonicalParent: canonicalPath,
      hide: options.hide,
    });
    if (found === undefined) continue;
    if ("fault" in found) problems.push(found);
    else entries.push(found);
    last = named.shown;
    if (pause.isDue()) await pause.take();
  }
  return { canonicalPath, entries, problems };
}

interface ShownName extends NamedEntry {
  readonly shown: string;
}

interface Look {
  readonly context: RootContext;
  readonly folder: Descriptor;
  readonly named: NamedEntry;
  readonly parent: WorkspacePath;
  readonly canonicalParent: WorkspacePath;
  readonly hide: HideRule | undefined;
}

function look({ context, folder, named, parent, canonicalParent, hide }: Look): Entry | Problem | undefined {
  const { name } = named;
  if (typeof name !== "string") return notUtf8(parent, named);
  const path = appendPath(parent, name as WorkspacePath);
  if (hide?.(path, named.kind) === true) return undefined;
  const canonicalPath = appendPath(canonicalParent, name as WorkspacePath);
  try {
    const stats = statEntry(folder, name);
    // Gone between the listing and the look: then it is not there.
    if (!stats) return undefined;
    if (!stats.isSymbolicLink()) return toEntry(path, stats, { canonicalPath });
    const verdict = judgeLink({ ...context.start, below: canonicalPath, folder, name, path });
    return toEntry(path, stats, {
      canonicalPath,
      ...shownLink(verdict),
    });
  } catch (error) {
    const fault = rootFault(error, path);
    if (fault instanceof Fault) return { path, fault };
    throw fault;
  }
}

/** The names of `folder`, staged files left out. */
export function readNames(folder: Descriptor, path: WorkspacePath): NamedEntry[] {
  try {
    return readFolder(folder).filter(({ name }) => typeof name !== "string" || !isStagedName(name));
  } catch (error) {
    throw rootFault(error, path);
  }
}

function sortNames(names: readonly NamedEntry[], after: string | undefined): readonly ShownName[] {
  const shown = names.map((named) => ({ ...named, shown: showName(named.name) }));
  const rest = after === undefined ? shown : shown.filter((named) => compareByUtf8(named.shown, after) > 0);
  return sortByUtf8(rest, (named) => named.shown);
}

/** A name that cannot travel as text. */
export function notUtf8(parent: WorkspacePath, named: NamedEntry): Problem {
  const path = appendPath(parent, showName(named.name) as WorkspacePath);
  return {
    path,
    fault: new Fault("PATH_INVALID", `${path} has a name that is not valid UTF-8`, { details: { path } }),
  };
}

/** A path below a folder that became longer than any path may be. */
export function pathTooLong(path: string): Fault | undefined {
  const actual = Buffer.byteLength(path);
  return actual <= maxPathBytes ? undefined : treePathTooLong(maxPathBytes, actual);
}
