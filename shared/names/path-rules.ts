import { createGlobSet, type Glob, type GlobSet, toGlobSet } from "./glob.ts";
import { baseName, isBeneath, pathAndParents, type WorkspacePath } from "./workspace-path.ts";

/** When a person is asked: never, when nothing else allows, or each time. */
export type AskMode = "off" | "on-miss" | "always";

/** The rules for one kind of operation on the paths of one workspace. */
export interface PathRules {
  /** What is refused, whatever else says yes. */
  readonly deny: GlobSet;
  readonly ask: AskMode;
  /** What is allowed. */
  readonly allow: GlobSet;
  /** The grant that covers exactly this path, when there is one; its id. */
  readonly findGrant?: (path: WorkspacePath) => string | undefined;
}

/** What the rules say of a path. `rule` names the step that decided, with its glob or grant. */
export interface PathDecision {
  readonly decision: "allow" | "deny" | "ask";
  readonly rule: string;
  /** Of a denial for want of a rule: the allow glob that came nearest. */
  readonly nearest?: string;
}

/**
 * Judges a path in this order: a `..` segment is refused, a deny glob denies, `ask: always` asks, an allow glob allows,
 * an exact grant allows, `ask: on-miss` asks, else it is denied. `path` may be text that was not parsed yet.
 */
export function judgePath(rules: PathRules, path: string): PathDecision {
  if (path.split("/").includes("..")) return { decision: "deny", rule: "dot_dot" };
  const parsed = path as WorkspacePath;
  const denied = findDenying(rules.deny, parsed);
  if (denied) return { decision: "deny", rule: `deny ${denied.pattern}` };
  if (rules.ask === "always") return { decision: "ask", rule: "ask always" };
  const allowed = rules.allow.find(parsed);
  if (allowed) return { decision: "allow", rule: `allow ${allowed.pattern}` };
  const grant = rules.findGrant?.(parsed);
  if (grant !== undefined) return { decision: "allow", rule: `grant ${grant}` };
  if (rules.ask === "on-miss") return { decision: "ask", rule: "ask on-miss" };
  const nearest = findNearest(rules.allow, parsed)?.pattern;
  return { decision: "deny", rule: "no_allow", ...(nearest === undefined ? {} : { nearest }) };
}

/**
 * The deny glob that covers `path` in any of the forms it may take on another volume: composed, and without blanks
 * around its names. The set's patterns must be composed (NFC) themselves.
 */
export function findDenying(deny: GlobSet, path: WorkspacePath): Glob | undefined {
  return firstForm(path, (form) => deny.findCovering(form));
}

/** As `findDenying`, for a path whose folders were judged before: a walk hides it or goes on. */
export function findDenyingItself(deny: GlobSet, path: WorkspacePath): Glob | undefined {
  return firstForm(path, (form) => deny.findItself(form));
}

const mayHaveForms = /[^\u0021-\u007e]/;

function firstForm(path: WorkspacePath, find: (form: WorkspacePath) => Glob | undefined): Glob | undefined {
  const found = find(path);
  if (found || !mayHaveForms.test(path)) return found;
  const composed = path.normalize("NFC") as WorkspacePath;
  const trimmed = composed
    .split("/")
    .map((name) => name.trim())
    .join("/") as WorkspacePath;
  return find(composed) ?? find(trimmed);
}

/**
 * The deny globs that do not deny what their own text says they must, tried with the judgement itself: of what may be
 * asked for, of what that may lead to, and of what a walk comes by. A set that holds one is not to be trusted.
 */
export function findDeadDenials(deny: GlobSet): readonly Glob[] {
  return deny.globs.filter((glob) => {
    const { sample } = glob;
    const alone = toGlobSet([glob]);
    const rules: PathRules = { deny: alone, ask: "always", allow: everything, findGrant: () => "any" };
    const isTrimmed = sample.split("/").every((name) => name === name.trim());
    const requested = [sample, sample.normalize("NFD"), ...(isTrimmed ? [` ${sample} `] : [])];
    const canonical = sample === "" ? [sample, "x"] : [sample, `${sample}/x`];
    const isJudged = [...requested, ...canonical].every((path) => judgePath(rules, path).decision === "deny");
    const walked = Array.from(pathAndParents(sample as WorkspacePath));
    return !isJudged || !walked.some((path) => findDenyingItself(alone, path) !== undefined);
  });
}

const everything = createGlobSet(["**"]);

/** The allow glob that shares most with the path: for telling people why theirs did not match. */
function findNearest(allow: GlobSet, path: WorkspacePath): Glob | undefined {
  let nearest: Glob | undefined;
  for (const glob of allow.globs) {
    const base = glob.base as WorkspacePath;
    const isNear = base === "" ? baseName(path) !== "" : isBeneath(path, base) || isBeneath(base, path);
    if (isNear && (nearest === undefined || base.length > nearest.base.length)) nearest = glob;
  }
  return nearest;
}
