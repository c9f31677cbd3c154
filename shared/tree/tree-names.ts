import { Fault } from "../fault/fault.ts";
import { EntryKind, type Entry, type TreeEntry } from "../gen/fairlead/v1/files_pb.ts";
import { foldName, isTwinOn, type NameFolding, type Twinship } from "../names/folded-name.ts";
import {
  baseName,
  isBeneath,
  parentPath,
  parseWorkspacePath,
  type WorkspacePath,
} from "../names/workspace-path.ts";
import { symlinkRefused } from "../root/refusals.ts";

/** Judges the entries of one tree that came from elsewhere, in the order in which they came. */
export interface TreeNames {
  /**
   * As `parseEntryPath`; what lies below a link of the tree itself is `SYMLINK_REFUSED`. A name that the volume takes for
   * another of its folder is `PATH_INVALID` with `details.reason` = `not_portable`, and so is what lies below it: the
   * sender's mark says so before the first of them is written; of names without a mark the second one is refused.
   */
  take(entry: Pick<Entry, "path" | "kind">, marks?: TwinMarks): WorkspacePath;
}

/** What the sender says of an entry's name. */
export type TwinMarks = Pick<TreeEntry, "caseTwin" | "formTwin" | "twin">;

/** The marks of an entry whose name is one with another. */
export function toWireTwinship(twinship: Twinship | undefined): Partial<TwinMarks> {
  if (!twinship) return {};
  return { caseTwin: twinship.byCase, formTwin: twinship.byForm, twin: twinship.byBoth };
}

/** What `createTreeNames` takes. */
export interface TreeNamesOptions {
  /** What the volume that the tree is written to does not tell apart; by default it tells all apart. */
  readonly folding?: NameFolding;
}

/** The names of a tree of which nothing has come yet. */
export function createTreeNames({ folding }: TreeNamesOptions = {}): TreeNames {
  const links = new Set<string>();
  const folds = folding !== undefined && (folding.case || folding.form);
  const twins = folds ? new Twins(folding) : undefined;
  return {
    take: (entry, marks) => {
      const path = parseEntryPath(entry.path);
      if (links.size > 0) requireNoLinkAbove(path, links);
      twins?.require(path, marks);
      if (entry.kind === EntryKind.LINK) links.add(path);
      return path;
    },
  };
}

/** The names that came of one folder that is not done. */
interface OpenFolder {
  readonly path: WorkspacePath;
  readonly names: Map<string, string>;
}

/** Entries come in the order of their paths, so only the folders on the way to the last one are remembered. */
class Twins {
  readonly #folding: NameFolding;
  readonly #refused = new Set<string>();
  #open: OpenFolder[] = [];

  constructor(folding: NameFolding) {
    this.#folding = folding;
  }

  require(path: WorkspacePath, marks: TwinMarks | undefined): void {
    for (let above = parentPath(path); above !== undefined && above !== ""; above = parentPath(above))
      if (this.#refused.has(above)) throw notPortable(path, `it lies in ${above}, which is not written`);
    const name = baseName(path);
    const names = this.#namesOf(parentPath(path) ?? path);
    const folded = foldName(name, this.#folding);
    const other = names.get(folded);
    const isMarked = marks !== undefined && isTwinOn(toTwinship(marks), this.#folding);
    if (!isMarked && (other === undefined || other === name)) {
      names.set(folded, name);
      return;
    }
    this.#refused.add(path);
    const shown = other === undefined || other === name ? "another name" : other;
    names.set(folded, other ?? name);
    throw notPortable(path, `its name and ${shown} of the same folder are one on the volume that it goes to`);
  }

  #namesOf(folder: WorkspacePath): Map<string, string> {
    this.#open = this.#open.filter((one) => isBeneath(folder, one.path));
    const last = this.#open.at(-1);
    if (last?.path === folder) return last.names;
    const names = new Map<string, string>();
    this.#open.push({ path: folder, names });
    return names;
  }
}

function toTwinship({ caseTwin, formTwin, twin }: TwinMarks): Twinship {
  return { byCase: caseTwin, byForm: formTwin, byBoth: twin };
}

/** The fault of an entry that cannot be written beside another of its folder; `why` completes "… is not portable: …". */
export function notPortable(path: string, why: string): Fault {
  return new Fault("PATH_INVALID", `${path} is not portable: ${why}`, {
    details: { field: "path", path, reason: "not_portable" },
    hint: "rename one of the two where they come from",
  });
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
