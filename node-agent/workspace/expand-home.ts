import path from "node:path";
import { createGlob, escapeGlob } from "../../shared/names/glob.ts";
import type { PathPlatform, WorkspacePath } from "../../shared/names/workspace-path.ts";

/** Where this machine's user lives, seen from an export. */
export interface HomePlace {
  /** The user's home, absolute, every link resolved. */
  readonly home: string;
  /** The export's folder, likewise. */
  readonly root: string;
  readonly platform: PathPlatform;
}

/** What an entry of rules is for. */
export type RuleUse = "allow" | "deny";

/**
 * A pattern that begins with `~` as patterns of the export: none when it leads beside it, several where `**` can be
 * read in several ways. Any other pattern is itself.
 */
export function expandHome(pattern: string, use: RuleUse, place: HomePlace): readonly string[] {
  const separators = place.platform === "windows" ? /[\\/]/ : /\//;
  const [first, ...rest] = pattern.split(separators);
  if (first !== "~") return [pattern];
  const wanted = rest.filter((name) => name !== "");
  const rules = place.platform === "windows" ? path.win32 : path.posix;
  const up = namesOf(rules.relative(place.root, place.home));
  // The home lies in the export, or is it.
  if (up && !up.includes("..")) return [join([...up.map(escapeGlob), ...wanted])];
  const down = namesOf(rules.relative(place.home, place.root));
  if (!down || down.includes("..")) return [];
  return [...new Set(follow(down, wanted, { use, isBare: !/[*?]/.test(pattern) }).map(join))];
}

/** The names of a relative path; undefined for one on another drive. */
function namesOf(relativePath: string): readonly string[] | undefined {
  if (path.win32.isAbsolute(relativePath) || path.posix.isAbsolute(relativePath)) return undefined;
  return relativePath.split(/[\\/]/).filter((name) => name !== "");
}

interface Meaning {
  readonly use: RuleUse;
  readonly isBare: boolean;
}

/** What is left of a pattern once it has gone down from the home to the export. */
function follow(
  down: readonly string[],
  wanted: readonly string[],
  meaning: Meaning,
): readonly (readonly string[])[] {
  const [name, ...below] = down;
  if (name === undefined) return [wanted];
  const [head, ...rest] = wanted;
  // A folder above the export: a deny covers all of it, and so does an entry without wildcards.
  if (head === undefined) return meaning.use === "deny" || meaning.isBare ? [["**"]] : [];
  if (head === "**") return [...follow(down, rest, meaning), ...follow(below, wanted, meaning)];
  const means = createGlob(head).meansItself(name as WorkspacePath);
  return means ? follow(below, rest, meaning) : [];
}

function join(names: readonly string[]): string {
  return names.length === 0 ? "**" : names.join("/");
}
