import { baseName, parentPath, type WorkspacePath } from "../../names/workspace-path.ts";
import type { Look, LookOptions } from "../look.ts";
import { announce, foundAbove, foundAt, openPlace, type RootContext, toEntry } from "./context.ts";
import { statEntry } from "./descriptor.ts";
import { findDeepest } from "./parents.ts";
import { findPlace, followingFolders, forChange, type Start } from "./place.ts";

/** `RootHandle.look`. */
export function look(context: RootContext, path: WorkspacePath, options: LookOptions): Look {
  // What is looked at as a change would see it is refused as the change would be.
  const start = startOf(context, options);
  const above = lookAbove(start, path);
  if (above) {
    options.check?.(above.canonicalPath, above.found);
    return above;
  }
  using place = findPlace(start, path, options.keepsLink ? "keep" : "follow");
  announce(context, "stat", path);
  const { canonicalPath } = place;
  using named = openPlace(place, path);
  const stats = named.stat();
  options.check?.(canonicalPath, foundAt(stats));
  return { canonicalPath, found: foundAt(stats), entry: toEntry(path, stats, { canonicalPath }) };
}

function startOf({ start }: RootContext, { keepsLink, followFolders }: LookOptions): Start {
  if (followFolders === true) return followingFolders(start);
  return keepsLink ? forChange(start) : start;
}

/** Where nothing stands at the path: the deepest folder on the way to it. */
function lookAbove(start: Start, path: WorkspacePath): Look | undefined {
  if (parentPath(path) === undefined) return undefined;
  const { folder, canonicalPath, missing } = findDeepest(start, path, true);
  using _ = folder;
  if (missing.length === 0 && statEntry(folder, baseName(path))) return undefined;
  const names = [canonicalPath, ...missing, baseName(path)].filter((name) => name !== "");
  return {
    canonicalPath: names.join("/") as WorkspacePath,
    found: foundAbove(folder.stat()),
    entry: undefined,
  };
}
