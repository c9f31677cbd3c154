import type { Alias } from "../../shared/names/alias.ts";
import { readRecipes } from "../../shared/skill-file/recipes.ts";
import type { CatalogueSkill, SkillReason, SkillState } from "./catalogue-skill.ts";
import { type GatedSkill, toGateReasons } from "./gate-reasons.ts";
import { shadowed as shadowedBy } from "./list-gateway.ts";
import type { PublishedSkill } from "./read-published.ts";

/** A skill of a node with the name it was given. */
export interface NamedSkill {
  readonly published: PublishedSkill;
  /** Its prefixed name; undefined for one that is broken, skipped or shadowed. */
  readonly name: string | undefined;
  /** The folder of the skill that shadows it. */
  readonly winner: string | undefined;
}

/** Everything that one node publishes. */
export interface NodeSkills {
  readonly nodeId: string;
  readonly alias: Alias;
  /** Of the link that it was read over. */
  readonly generation: number;
  readonly isOnline: boolean;
  /** Since when it is as it is, in milliseconds since 1970. */
  readonly sinceMs: number;
  readonly skills: readonly NamedSkill[];
}

/** Whether sessions that are not bound to its workspace see it. */
export function isVisible(skill: NamedSkill, node: NodeSkills): boolean {
  return toState(skill, node) === "eligible";
}

/** A skill as a list shows it: under its prefixed name, or under its own where its workspace is the session's. */
export function toListed(
  skill: NamedSkill,
  node: NodeSkills,
  options: {
    /** Whether its workspace is the session's. */
    readonly isBound?: boolean;
    /** The names that stand alone. */
    readonly plain?: ReadonlySet<string>;
  } = {},
): CatalogueSkill {
  const { published } = skill;
  const state = toState(skill, node);
  const isPlain = options.isBound === true || options.plain?.has(published.name) === true;
  const name = skill.name === undefined || isPlain ? published.name : skill.name;
  const isKnown = skill.name !== undefined;
  return {
    name,
    description: published.description,
    owner: node.alias,
    nodeId: node.nodeId,
    workspace: published.workspace,
    folder: published.folder,
    source: options.isBound === true ? "workspace" : "node",
    root: "",
    state,
    reasons: toReasons(skill, { node, state }),
    digest: published.digest,
    revision: published.revision,
    location: isKnown
      ? `skill://${node.alias}/${(skill.name ?? "").slice(node.alias.length + 1)}/SKILL.md`
      : "",
    frontMatterJson: published.frontMatterJson,
  };
}

function toState(skill: NamedSkill, node: NodeSkills): SkillState {
  if (!node.isOnline) return "offline";
  if (skill.published.state !== "ok") return skill.published.state;
  if (skill.name === undefined) return "shadowed";
  return skill.published.failedGates.length > 0 ? "ineligible" : "eligible";
}

function toReasons(
  skill: NamedSkill,
  at: { readonly node: NodeSkills; readonly state: SkillState },
): readonly SkillReason[] {
  const { published } = skill;
  switch (at.state) {
    case "offline":
      return [offline(at.node), ...published.reasons];
    case "shadowed":
      return [shadowed(skill), ...published.reasons];
    case "ineligible":
      return [...toGateReasons(published.failedGates, toGated(skill, at.node)), ...published.reasons];
    case "eligible":
    case "broken":
    case "skipped":
      return published.reasons;
  }
}

/** Named as everybody sees it: an administrator installs without a session. */
function toGated({ name, published }: NamedSkill, { alias }: NodeSkills): GatedSkill {
  const frontMatter = JSON.parse(published.frontMatterJson || "{}") as Parameters<typeof readRecipes>[0];
  return { alias, name: name ?? published.name, hasRecipe: readRecipes(frontMatter).recipes.length > 0 };
}

function offline(node: NodeSkills): SkillReason {
  return {
    code: "node_offline",
    message: `${node.alias} is offline since ${new Date(node.sinceMs).toISOString()}`,
    hint: `fairlead nodes show ${node.alias}`,
    path: "",
    line: 0,
  };
}

function shadowed(skill: NamedSkill): SkillReason {
  const { winner, published } = skill;
  if (winner === undefined) {
    return {
      code: "name_taken",
      message: "every form of its name is held by another skill",
      hint: "rename the skill",
      path: published.folder,
      line: 0,
    };
  }
  return shadowedBy(winner);
}
