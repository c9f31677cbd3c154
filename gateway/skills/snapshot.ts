import { createHash } from "node:crypto";
import { compareByUtf8 } from "../../shared/names/byte-order.ts";
import type { SkillChoice } from "./agent-list.ts";
import type { CatalogueSkill } from "./catalogue-skill.ts";
import { currentPromptForm, defaultPromptLimits, type PromptLimits } from "./prompt.ts";

/** Names the form of the hash's input: another form gives other hashes. */
const form = "skills 2";

/** What a list of skills is made by besides the skills. */
export interface SnapshotInputs {
  /** Which of them the agent may use. */
  readonly choice?: SkillChoice | undefined;
  readonly limits?: PromptLimits;
  /** Names the form of the prompt. */
  readonly promptForm?: string;
}

/**
 * Names a list of skills by what it was made from: owner, place, name, state, instruction digest and revision of each, and by how the list is made. Equal
 * inputs give the equal hash, in whatever order they come and whenever they are asked.
 */
export function snapshotOf(skills: readonly CatalogueSkill[], inputs: SnapshotInputs = {}): string {
  const rows = skills.map((skill) =>
    JSON.stringify([
      skill.name,
      skill.owner,
      skill.nodeId,
      skill.workspace,
      skill.source,
      skill.root,
      skill.folder,
      skill.state,
      skill.digest,
      skill.revision,
      skill.description,
      skill.reasons.map((reason) => [reason.code, reason.path, reason.line, reason.message]),
    ]),
  );
  const { choice, limits = defaultPromptLimits, promptForm = currentPromptForm } = inputs;
  const rest = [
    choice?.only ?? null,
    choice?.disabled ?? [],
    limits.maxCharacters,
    limits.maxSkills,
    promptForm,
  ];
  const hash = createHash("sha256").update(form).update("\n").update(JSON.stringify(rest));
  for (const row of rows.toSorted(compareByUtf8)) hash.update("\n").update(row);
  return `sha256:${hash.digest("hex")}`;
}
