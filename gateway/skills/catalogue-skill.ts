import type { SkillSource } from "./gateway-roots.ts";

/** Where a skill stands in a list. */
export type SkillState = "eligible" | "ineligible" | "broken" | "shadowed" | "skipped" | "offline";

/** Why a skill is not eligible. */
export interface SkillReason {
  /** A `snake_case` word, or the code of a fault. */
  readonly code: string;
  readonly message: string;
  /** What mends it; empty when nothing does. */
  readonly hint: string;
  /** The file, relative to its workspace; empty when none is meant. */
  readonly path: string;
  /** The line, from 1; 0 when none is meant. */
  readonly line: number;
}

/** A skill as a list shows it. */
export interface CatalogueSkill {
  /** The name it is known by in this list. */
  readonly name: string;
  readonly description: string;
  /** The alias of its node, or `gateway`. */
  readonly owner: string;
  /** Empty for the gateway's own. */
  readonly nodeId: string;
  /** The export that it lies in; empty for the gateway's own. */
  readonly workspace: string;
  /** Its folder in the export, or below its root. */
  readonly folder: string;
  readonly source: SkillSource;
  /** The root, absolute, of a skill of the gateway's own disk; empty for a node's. Never told to a session. */
  readonly root: string;
  readonly state: SkillState;
  /** At least one unless it is eligible. */
  readonly reasons: readonly SkillReason[];
  /** Digest of its instruction file; empty where that was not read. */
  readonly digest: string;
  /** Digest of all its files, by path, content, size and executable mark; empty where that is not known. */
  readonly revision: string;
  /** Where it can be read from: `skill://NODE/NAME/SKILL.md`, the same in every list; empty for one that has no name. */
  readonly location: string;
  /** Its front matter as JSON; empty for one that is broken. */
  readonly frontMatterJson: string;
}

/** Why a list was made anew. */
export type BuildReason =
  | "first_use"
  | "gateway_skills_changed"
  | "skills_published"
  | "node_offline"
  | "node_revoked"
  | "node_renamed";

/** Skills in order of their names, with the hash of everything that the list was made from. */
export interface SkillList {
  readonly skills: readonly CatalogueSkill[];
  readonly snapshot: string;
  /** When the list became what it is, in milliseconds since 1970; asking again or an equal list changes nothing. */
  readonly builtMs: number;
  /** What made it become so. */
  readonly reason: BuildReason;
  /** Since when the node of the session's own workspace is away, and its skills are those of its last word; else undefined. */
  readonly staleSinceMs: number | undefined;
}
