import { Fault } from "../fault/fault.ts";
import { EntryKind, type Entry } from "../gen/fairlead/v1/files_pb.ts";
import { parentPath, parseWorkspacePath, type WorkspacePath } from "../names/workspace-path.ts";
import { symlinkRefused } from "../root/refusals.ts";

/** Judges the entries of one tree that came from elsewhere, in the order in which they came. */
export interface TreeNames {
  /** As `parseEntryPath`; what lies below a link of the tree itself is `SYMLINK_REFUSED`. */
  take(entry: Pick<Entry, "path" | "kind">): WorkspacePath;
}

/** The names of a tree of which nothing has come yet. */
export function createTreeNames(): TreeNames {
  const links = new Set<string>();
  return {
    take: ({ path: text, kind }) => {
      const path = parseEntryPath(text);
      if (links.size > 0) requireNoLinkAbove(path, links);
      if (kind === EntryKind.LINK) links.add(path);
      return path;
    },
  };
}

function requireNoLinkAbove(path: WorkspacePath, links: ReadonlySet<string>): void {
  for (let above = parentPath(path); above !== undefined && above !== ""; above = parentPath(above))
    if (links.has(above)) throw symlinkRefused(above);
}

const driveStart = /^[a-z]:/i;

/**
 * The path of an entry below its tree's root, for what came from elsewhere. Fails with `PATH_INVALID` for what is no path
 * below it, and for what would be a drive on another machine.
 */
export function parseEntryPath(text: string): WorkspacePath {
  const path = parseWorkspacePath(text);
  if (path === "") throw refused("an entry of the tree has no name", 0);
  if (driveStart.test(path)) throw refused("an entry of the tree begins with a drive", 0);
  return path;
}

function refused(why: string, position: number): Fault {
  return new Fault("PATH_INVALID", why, {
    details: { field: "path", position },
    hint: "rename it where it comes from",
  });
}
