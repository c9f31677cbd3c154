import picomatch from "picomatch";
import { Fault } from "../fault/fault.ts";
import { pathAndParents, type WorkspacePath } from "./workspace-path.ts";

/** How names are compared. */
export interface GlobOptions {
  /** Upper and lower case are one: for volumes that ignore case. Off by default. */
  readonly foldCase?: boolean;
  /** Named in faults as `details.field`; `glob` by default. */
  readonly field?: string;
}

/**
 * A pattern of workspace paths. `*` and `?` stand for characters of one name (a leading dot and a newline included),
 * `**` for any number of names (none included), `{a,b}` for either; everything else, brackets included, is itself.
 * A backslash takes the meaning from the character behind it.
 */
export interface Glob {
  /** As it was written. */
  readonly pattern: string;
  /** Whether it holds neither `*` nor `?`: then it means those paths and, for folders, everything below them. */
  readonly isBare: boolean;
  /** Whether `path` is meant; a bare pattern also means what lies below it. */
  matches(path: WorkspacePath): boolean;
  /** Whether `path` or a folder above it is meant: what a deny covers. */
  covers(path: WorkspacePath): boolean;
  /** Whether `path` itself is meant, whatever is said of the folders above it: for walks that saw those before. */
  meansItself(path: WorkspacePath): boolean;
  /** A path that the pattern must mean, made from its text alone: for trying whether it does. */
  readonly sample: string;
  /** The folder in which the wildcards and braces begin; the whole path when there are none. */
  readonly base: string;
}

const matcherOptions = { dot: true, nonegate: true, noextglob: true, nobracket: true } as const;
const maxPatternLength = 1024;

/** Compiles `pattern`; an empty, absolute, overlong or unbalanced one, or one with NUL or `..`, is `INVALID_ARGUMENT`. */
export function createGlob(pattern: string, options: GlobOptions = {}): Glob {
  const trimmed = trimPattern(pattern);
  refuseMalformed(pattern, trimmed, options);
  const isBare = !hasUnescaped(trimmed, "*?");
  // `x/**` means x and everything below it: the matcher alone leaves x out where x ends in a wildcard.
  const [top, isDeep] = trimmed.endsWith("/**") ? [trimmed.slice(0, -3), true] : [trimmed, isBare];
  const meansAll = top === "" || top === "**";
  const shape = meansAll ? anything : compile(top, options);
  const meansItself = (path: WorkspacePath): boolean => meansAll || (path !== "" && shape.test(path));
  const covers = (path: WorkspacePath): boolean => {
    for (const at of pathAndParents(path)) if (meansItself(at)) return true;
    return false;
  };
  const matches = isDeep ? covers : meansItself;
  return {
    pattern,
    isBare,
    matches,
    covers,
    meansItself,
    sample: findSample(trimmed),
    base: findBase(trimmed),
  };
}

const anything = /^/;

/** Several globs asked at once. */
export interface GlobSet {
  /** The patterns in their order. */
  readonly globs: readonly Glob[];
  /** The first glob that means `path`. */
  find(path: WorkspacePath): Glob | undefined;
  /** The first glob that means `path` or a folder above it. */
  findCovering(path: WorkspacePath): Glob | undefined;
  /** The first glob that means `path` itself. */
  findItself(path: WorkspacePath): Glob | undefined;
}

/** Compiles `patterns` into a set; faults as `createGlob`. */
export function createGlobSet(patterns: readonly string[], options: GlobOptions = {}): GlobSet {
  return toGlobSet(patterns.map((pattern) => createGlob(pattern, options)));
}

/** Compiled globs as a set. */
export function toGlobSet(globs: readonly Glob[]): GlobSet {
  return {
    globs,
    find: (path) => globs.find((glob) => glob.matches(path)),
    findCovering: (path) => globs.find((glob) => glob.covers(path)),
    findItself: (path) => globs.find((glob) => glob.meansItself(path)),
  };
}

/** `path` as a pattern that means exactly it and what lies below: every wildcard loses its meaning. */
export function escapeGlob(path: string): string {
  return path.replaceAll(/[*?{}\\]/g, String.raw`\$&`);
}

/** Leading `./` and `/`, and one `/` at the end, say nothing: patterns are relative to the root anyway. */
function trimPattern(pattern: string): string {
  const front = pattern.replace(/^(?:\.?\/)+/, "");
  const trimmed = front.length > 1 && front.endsWith("/") ? front.slice(0, -1) : front;
  return trimmed === "." ? "" : trimmed;
}

function refuseMalformed(pattern: string, trimmed: string, options: GlobOptions): void {
  const refuse = (why: string): Fault =>
    new Fault("INVALID_ARGUMENT", `the pattern ${JSON.stringify(pattern.slice(0, 200))} ${why}`, {
      details: { field: options.field ?? "glob" },
    });
  if (pattern === "") throw refuse("is empty");
  if (pattern.length > maxPatternLength) throw refuse(`is longer than ${maxPatternLength} characters`);
  if (pattern.includes("\0") || !pattern.isWellFormed()) throw refuse("holds NUL or broken Unicode");
  if (trimmed.split("/").some((name) => name === ".." || name === "." || (name === "" && trimmed !== ""))) {
    throw refuse("has an empty, . or .. name");
  }
  if (!hasBalancedBraces(trimmed)) throw refuse("has a brace that is not closed");
}

function hasBalancedBraces(pattern: string): boolean {
  let depth = 0;
  for (const [unit] of pattern.matchAll(/\\.|[{}]/gs)) {
    if (unit === "{") depth += 1;
    if (unit === "}") depth -= 1;
    if (depth < 0) return false;
  }
  return depth === 0;
}

function hasUnescaped(pattern: string, wanted: string): boolean {
  for (const [unit] of pattern.matchAll(/\\.|./gsu)) if (wanted.includes(unit)) return true;
  return false;
}

function compile(pattern: string, options: GlobOptions): RegExp {
  // The matcher gives (, ), |, + and others a meaning of its own, and a backslash before a letter one of regular
  // expressions. A newline is an ordinary character of a name: hence the flag s.
  const plain = pattern.replaceAll(/\\(.)|[^*?{},/]/gsu, (unit: string, escaped: string | undefined) => {
    const character = escaped ?? unit;
    return /[\p{L}\p{N}._-]/u.test(character) ? character : `\\${character}`;
  });
  return picomatch.makeRe(plain, { ...matcherOptions, flags: options.foldCase === true ? "si" : "s" });
}

function findBase(pattern: string): string {
  const names: string[] = [];
  for (const name of pattern.split("/")) {
    if (hasUnescaped(name, "*?{")) break;
    names.push(name.replaceAll(/\\(.)/gs, "$1"));
  }
  return names.join("/");
}

/** The first alternative of each brace, the first of each range, and something for each wildcard. */
function findSample(pattern: string): string {
  let sample = "";
  const depths: boolean[] = [];
  for (const [unit] of pattern.matchAll(/\\.|\*+|\.\.|./gsu)) {
    const isSkipped = depths.at(-1) === true;
    if (unit === "{") depths.push(isSkipped);
    else if (unit === "}") depths.pop();
    else if ((unit === "," || unit === "..") && depths.length > 0) depths[depths.length - 1] = true;
    else if (!isSkipped) sample += /^[*?]/.test(unit) ? "x" : unit.replace(/^\\(?=.)/s, "");
  }
  return sample;
}
