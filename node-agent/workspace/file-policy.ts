import { Fault, isFault } from "../../shared/fault/fault.ts";
import { createGlobSet, type GlobSet } from "../../shared/names/glob.ts";
import {
  findDeadDenials,
  findDenyingItself,
  judgePath,
  type PathDecision,
} from "../../shared/names/path-rules.ts";
import { isBeneath, toPathPlatform, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import { expandHome, type HomePlace, type RuleUse } from "./expand-home.ts";
import { type ExportSettings, resolveDeny } from "./export-settings.ts";

/** What is to be done with a path: each a permission of its own. */
export type FileOperation = "read" | "write" | "remove" | "move" | "mkdir";

/** What this machine says of an operation. */
export interface FileDecision extends PathDecision {
  readonly side: "node";
}

/** The machine's own word on its files, judged on requested and canonical paths alike. */
export interface FilePolicy {
  /** What is said of `operation` on `path`. */
  judge(operation: FileOperation, path: WorkspacePath): FileDecision;
  /** Fails with `POLICY_DENIED` unless it is allowed. */
  require(operation: FileOperation, path: WorkspacePath): void;
  /** Whether an entry of a folder that may be listed is shown: none that is denied or may not be read. */
  isListed(path: WorkspacePath): boolean;
}

/** What a policy is made of besides the settings. */
export interface FilePolicyOptions {
  /** The volume takes upper and lower case for one. */
  readonly ignoresCase?: boolean;
  /** Folders that stay closed whatever the settings say: this program's own state. */
  readonly closed?: readonly WorkspacePath[];
  /** What `~` means; without it the rules may not begin with one. */
  readonly home?: HomePlace | undefined;
}

/** Compiles the settings; a malformed glob is `INVALID_ARGUMENT`, and so is a deny that does not deny. */
export function createFilePolicy(settings: ExportSettings, options: FilePolicyOptions = {}): FilePolicy {
  const { home } = options;
  const expand = (patterns: readonly string[], use: RuleUse): readonly string[] =>
    home ? patterns.flatMap((pattern) => expandHome(pattern, use, home)) : patterns;
  const lists = resolveDeny(settings.deny);
  const foldCase = options.ignoresCase ?? false;
  const compile = (patterns: readonly string[], field: string): GlobSet =>
    createGlobSet(patterns, { foldCase, field });
  const denyAll = compile(expand(lists.all, "deny").map(compose), "deny");
  const denyChanges = compile(expand([...lists.all, ...lists.changes], "deny").map(compose), "deny");
  requireAlive(denyChanges);
  const readRules = {
    deny: denyAll,
    ask: "off",
    allow: compile(expand(settings.read, "allow"), "read"),
  } as const;
  const changeRules = {
    deny: denyChanges,
    ask: "off",
    allow: compile(expand(settings.write, "allow"), "write"),
  } as const;
  const closed = options.closed ?? [];
  const readsAll = settings.read.includes("**");

  const judge = (operation: FileOperation, path: WorkspacePath): FileDecision => {
    const side = "node";
    if (closed.some((folder) => isBeneath(path, folder)))
      return { decision: "deny", rule: "own_state", side };
    const decision = judgePath(operation === "read" ? readRules : changeRules, path);
    if (decision.decision !== "allow" || operation === "read" || operation === "write")
      return { ...decision, side };
    return settings[operation] ? { ...decision, side } : { decision: "deny", rule: `${operation}_off`, side };
  };
  return {
    judge,
    require: (operation, path) => {
      const decision = judge(operation, path);
      if (decision.decision !== "allow") throw denied(operation, path, decision);
    },
    // The folders above were judged when they were entered.
    isListed: (path) =>
      !closed.includes(path) &&
      findDenyingItself(denyAll, path) === undefined &&
      (readsAll || readRules.allow.find(path) !== undefined),
  };
}

/** Fails with the first mistake in the rules of what is to be exported; nothing is opened. */
export function requireRules(exports: readonly ExportSettings[]): void {
  for (const settings of exports) {
    const { dir, userHome } = settings;
    const home = userHome === undefined ? undefined : { home: userHome, root: dir, platform };
    try {
      createFilePolicy(settings, { home });
    } catch (error) {
      if (!isFault(error)) throw error;
      throw new Fault(error.code, `workspace ${settings.name}: ${error.message}`, {
        details: { ...error.details, workspace: settings.name },
        hint: error.hint ?? "fairlead node config check",
        cause: error,
      });
    }
  }
}

const platform = toPathPlatform(process.platform);

/** Each deny is tried against what it must catch: one that does not deny must not be taken for one that does. */
function requireAlive(deny: GlobSet): void {
  const [dead] = findDeadDenials(deny);
  if (!dead) return;
  throw new Fault("INVALID_ARGUMENT", `the deny glob ${dead.pattern} does not deny what it seems to`, {
    details: { field: "deny", rule: dead.pattern },
    hint: "write it in a simpler form, without ranges in braces",
  });
}

const compose = (pattern: string): string => pattern.normalize("NFC");

function denied(operation: FileOperation, path: WorkspacePath, { rule, nearest, side }: FileDecision): Fault {
  const what = path === "" ? "the workspace's root" : path;
  return new Fault("POLICY_DENIED", `the node does not let ${what} be ${done[operation]}`, {
    details: { rule, side, path, ...(nearest === undefined ? {} : { nearest }) },
    ...hintFor(operation, rule, nearest),
  });
}

const done: Readonly<Record<FileOperation, string>> = {
  read: "read",
  write: "written",
  remove: "removed",
  move: "moved",
  mkdir: "made",
};

function hintFor(
  operation: FileOperation,
  rule: string,
  nearest: string | undefined,
): { readonly hint?: string } {
  if (nearest !== undefined) return { hint: `the nearest rule of the workspace is ${nearest}` };
  if (rule === `${operation}_off`)
    return {
      hint: `set ${operation} of the workspace in the node's configuration (fairlead node config check)`,
    };
  if (rule.startsWith("deny "))
    return { hint: "change deny of the workspace in the node's configuration (fairlead node config check)" };
  if (rule !== "no_allow") return {};
  const option = operation === "read" ? "--read" : "--write";
  return {
    hint: `export it on the node with ${option} GLOB: fairlead node workspace rm NAME, then fairlead node workspace add`,
  };
}
