import { fitsWildcard } from "../../shared/core-tools/wildcard.ts";

const aliases: Readonly<Record<string, string>> = { bash: "exec", "apply-patch": "apply_patch" };

/** A tool's name as policy, hooks and records carry it: trimmed, lower case, old names of a tool resolved. */
export function toCanonicalName(name: string): string {
  const plain = name.trim().toLowerCase();
  const split = plain.lastIndexOf("__");
  const own = split < 0 ? plain : plain.slice(split + 2);
  const resolved = Object.hasOwn(aliases, own) ? aliases[own] : undefined;
  return resolved === undefined ? plain : `${plain.slice(0, plain.length - own.length)}${resolved}`;
}

/** Tools that are meant together; a group holds the same tool of every node. */
export const toolGroups: Readonly<Record<string, readonly string[]>> = {
  "group:fs": ["apply_patch", "edit", "glob", "list", "read", "search", "write"],
  "group:runtime": ["exec", "process"],
  "group:memory": ["memory_get", "memory_search"],
};

/** A tool as entries of a list are compared with it. */
export interface NamedTool {
  /** The names that it goes by: as listed, and with its node's prefix. */
  readonly names: readonly string[];
  /** Its owner's own name for it. */
  readonly ownName: string;
}

const changesFiles = new Set(["apply_patch", "edit"]);

/** The first entry of an allow list that means `tool`. */
export function findAllowing(entries: readonly string[], tool: NamedTool): string | undefined {
  return entries.find(
    (entry) => meansName(entry, tool) || (canonical(entry) === "write" && tool.ownName === "apply_patch"),
  );
}

/**
 * The first entry of a deny list that means `tool`. A core tool's plain name also means that tool of every node, and
 * `write` every tool that changes files: a deny is never to be got round by another name of the same thing.
 */
export function findDenying(entries: readonly string[], tool: NamedTool): string | undefined {
  return entries.find((entry) => {
    if (meansName(entry, tool)) return true;
    const wanted = canonical(entry);
    return wanted === tool.ownName || (wanted === "write" && changesFiles.has(tool.ownName));
  });
}

function canonical(entry: string): string {
  return toCanonicalName(entry);
}

function meansName(entry: string, tool: NamedTool): boolean {
  const wanted = canonical(entry);
  const group = toolGroups[wanted];
  if (group) return group.includes(tool.ownName);
  return tool.names.some((name) => fitsWildcard(wanted, name));
}
