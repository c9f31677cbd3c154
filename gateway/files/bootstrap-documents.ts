import { Fault, isFault } from "../../shared/fault/fault.ts";
import type { Log } from "../../shared/log/log.ts";
import { createGlob, type Glob } from "../../shared/names/glob.ts";
import { baseName, isBeneath, parentPath, type WorkspacePath } from "../../shared/names/workspace-path.ts";

/** The documents that an agent is begun with, as they are called in every workspace. */
export const bootstrapNames: readonly string[] = [
  "AGENTS.md",
  "SOUL.md",
  "IDENTITY.md",
  "USER.md",
  "BOOTSTRAP.md",
  "MEMORY.md",
];

/** Those that an agent may write, in the root only. */
const ownNames: ReadonlySet<string> = new Set(bootstrapNames.slice(0, 4));
const knownNames: ReadonlySet<string> = new Set(bootstrapNames);

/** A pattern that counts for nothing, with the reason in words. */
export interface DroppedPattern {
  readonly pattern: string;
  readonly reason: string;
}

/** Which documents of a workspace the bootstrap view opens. Paths are relative to the workspace's root. */
export interface BootstrapDocuments {
  /** A file's bytes: a document in the root, or one by such a name that a pattern means. */
  readonly canRead: (path: WorkspacePath) => boolean;
  /** A document that is the agent's own, in the root. */
  readonly canWrite: (path: WorkspacePath) => boolean;
  /** A folder's names: in the folder where a pattern's wildcards begin, and below it. Opens no file. */
  readonly canList: (path: WorkspacePath) => boolean;
  readonly dropped: readonly DroppedPattern[];
}

/**
 * The bootstrap view with these extra patterns: `*`, `?`, `**` and `{a,b}` are wildcards and brackets are not. A pattern
 * that cannot be is dropped, and the others count.
 */
export function createBootstrapDocuments(patterns: readonly string[] = []): BootstrapDocuments {
  const globs: Glob[] = [];
  const dropped: DroppedPattern[] = [];
  for (const pattern of patterns) {
    try {
      const relative = withoutDots(pattern);
      const glob = createGlob(relative, { field: "bootstrap.patterns" });
      if (relative.startsWith("/")) dropped.push({ pattern, reason: "it begins outside of the workspace" });
      else globs.push(glob);
    } catch (error) {
      if (!isFault(error)) throw error;
      dropped.push({ pattern, reason: error.message });
    }
  }
  const walkRoots = globs.filter(hasWildcard).map((glob) => glob.base as WorkspacePath);
  return {
    canRead: (path) =>
      knownNames.has(baseName(path)) && (isInRoot(path) || globs.some((glob) => glob.meansItself(path))),
    canWrite: (path) => ownNames.has(path),
    canList: (path) => walkRoots.some((root) => root === "" || path === root || isBeneath(path, root)),
    dropped,
  };
}

/** The view that the configuration asks for; what is dropped of it is logged. */
export function openBootstrap(patterns: readonly string[], log: Log): BootstrapDocuments {
  const documents = createBootstrapDocuments(patterns);
  for (const dropped of documents.dropped)
    log.warn("a pattern of bootstrap.patterns counts for nothing", { ...dropped });
  return documents;
}

/** What is done with a document. */
export type BootstrapUse = "read" | "write" | "list";

/** Fails with `POLICY_DENIED` for what the bootstrap view does not open. */
export function requireBootstrap(
  documents: BootstrapDocuments | undefined,
  use: BootstrapUse,
  path: WorkspacePath,
): void {
  const { canRead, canWrite, canList } = documents ?? createBootstrapDocuments();
  const isOpen = use === "read" ? canRead(path) : use === "write" ? canWrite(path) : canList(path);
  if (isOpen) return;
  const shown = path === "" ? "the workspace's root" : path;
  throw new Fault("POLICY_DENIED", `${shown} is not open to a bootstrap ${use}`, {
    details: { path, rule: "bootstrap_documents", side: "gateway" },
    hint:
      use === "write"
        ? `a bootstrap write is for ${[...ownNames].join(", ")} in the root; write other files without --bootstrap`
        : "name it in bootstrap.patterns of the gateway's configuration, or leave --bootstrap away",
  });
}

function isInRoot(path: WorkspacePath): boolean {
  return parentPath(path) === "";
}

function hasWildcard({ pattern }: Glob): boolean {
  return /(?<!\\)[*?{}]/u.test(pattern);
}

/** A pattern may go through `.` and `..` as long as it stays in the workspace; what leads out is refused by the glob. */
function withoutDots(pattern: string): string {
  if (!pattern.includes("./") && !pattern.endsWith("/..")) return pattern;
  const kept: string[] = [];
  for (const name of pattern.split("/")) {
    if (name === "." || (name === "" && kept.length > 0)) continue;
    const above = kept.at(-1);
    if (name === ".." && above !== undefined && above !== ".." && !/[*?{}]/u.test(above)) kept.pop();
    else kept.push(name);
  }
  return kept.join("/");
}
