import { hash } from "node:crypto";
import type { Alias, WorkspaceName } from "./alias.ts";

/** Most characters of a name that a session sees. */
const maxPublishedNameLength = 64;

/** What a published name is made of. */
export interface PublishedNameParts {
  /** The alias of the node that publishes. */
  readonly alias: Alias;
  /** The node's id, which the short hash is made over. */
  readonly nodeId: string;
  /** The node's own name of the skill or tool. */
  readonly name: string;
  /** Set for a skill of a workspace that is not the first to export that name. */
  readonly workspace?: WorkspaceName;
  /** Set when another claimant holds the plain result: the name then ends in the hash even though it is short. */
  readonly isTaken?: boolean;
}

/** The name of a node's skill: `<alias>-<skill>`, or `<alias>-<workspace>-<skill>`, at most 64 characters. */
export function toSkillName(parts: PublishedNameParts): string {
  const workspace = parts.workspace === undefined ? "" : `${toSkillWord(parts.workspace)}-`;
  return fit(`${parts.alias}-${workspace}${parts.name}`, "-", parts);
}

/** The name of a node's tool: `<alias>__<tool>`, at most 64 characters. */
export function toToolName(parts: PublishedNameParts): string {
  return fit(`${parts.alias}__${parts.name}`, "_", parts);
}

/** A tool's name split at its prefix; undefined for a name without one. An alias holds no underscore, so it is exact. */
export function splitToolName(name: string): { readonly alias: string; readonly tool: string } | undefined {
  const at = name.indexOf("__");
  if (at <= 0 || at + 2 >= name.length) return undefined;
  return { alias: name.slice(0, at), tool: name.slice(at + 2) };
}

/** The first 8 hex digits of SHA-256 over `<node id>/<name>`. */
export function shortNameHash(nodeId: string, name: string): string {
  return hash("sha256", `${nodeId}/${name}`, "hex").slice(0, 8);
}

function fit(full: string, separator: "-" | "_", parts: PublishedNameParts): string {
  if (full.length <= maxPublishedNameLength && parts.isTaken !== true) return full;
  const ending = `${separator}${shortNameHash(parts.nodeId, parts.name)}`;
  let kept = full.slice(0, maxPublishedNameLength - ending.length);
  while (kept.endsWith(separator)) kept = kept.slice(0, -1);
  return `${kept.toWellFormed()}${ending}`;
}

/** Skills are named with a to z, 0 to 9 and hyphens; a workspace's name may hold more. */
function toSkillWord(name: WorkspaceName): string {
  return name
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replaceAll(/^-|-$/g, "");
}
