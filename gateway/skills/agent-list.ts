import type { CatalogueSkill, SkillReason } from "./catalogue-skill.ts";

/** Which skills an agent may use, by the names that its sessions see. */
export interface SkillChoice {
  /** Only these; undefined: all. */
  readonly only: readonly string[] | undefined;
  /** None of these, whoever asks. */
  readonly disabled: readonly string[];
}

/** The skills with those that the choice leaves out marked so, with the reason. */
export function choose(skills: readonly CatalogueSkill[], choice: SkillChoice): readonly CatalogueSkill[] {
  const only = choice.only && new Set(choice.only);
  const disabled = new Set(choice.disabled);
  if (!only && disabled.size === 0) return skills;
  return skills.map((skill) => {
    if (skill.state !== "eligible") return skill;
    if (disabled.has(skill.name)) return left(skill, isDisabled(skill.name));
    return only && !only.has(skill.name) ? left(skill, isNotListed(skill.name)) : skill;
  });
}

function left(skill: CatalogueSkill, reason: SkillReason): CatalogueSkill {
  return { ...skill, state: "ineligible", reasons: [reason, ...skill.reasons] };
}

function isDisabled(name: string): SkillReason {
  return {
    code: "disabled",
    message: "it is disabled in the gateway's configuration",
    hint: `take ${name} out of skills.disabled`,
    path: "",
    line: 0,
  };
}

function isNotListed(name: string): SkillReason {
  return {
    code: "not_listed",
    message: "the agent's list of skills does not name it",
    hint: `add ${name} to the skills of the agent in the gateway's configuration`,
    path: "",
    line: 0,
  };
}
