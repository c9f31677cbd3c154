import { Fault } from "../fault/fault.ts";
import { compareByUtf8 } from "../names/byte-order.ts";
import type { SkillLimits } from "./limits.ts";

/** What counts toward the limits of a set of skills. */
export interface CountedSkill {
  readonly name: string;
  /** Tells skills of one name apart, always in the same way. */
  readonly key: string;
  readonly sizeBytes: number;
}

/** Which skills a set may hold. */
export interface Admitted<T> {
  /** In the order they came in. */
  readonly kept: readonly T[];
  /** The others, each with `LIMIT_REACHED`, the limit and the actual value. */
  readonly skipped: readonly { readonly skill: T; readonly fault: Fault }[];
}

/**
 * Takes skills in order of their names while number and bytes allow: one that does not fit is skipped and the next is
 * tried, so that a single large one does not hide all behind it.
 */
export function admitSkills<T extends CountedSkill>(skills: readonly T[], limits: SkillLimits): Admitted<T> {
  const byName = skills.toSorted((a, b) => compareByUtf8(a.name, b.name) || compareByUtf8(a.key, b.key));
  const totalBytes = skills.reduce((sum, skill) => sum + skill.sizeBytes, 0);
  const kept = new Set<T>();
  const skipped: { skill: T; fault: Fault }[] = [];
  let keptBytes = 0;
  for (const skill of byName) {
    if (kept.size >= limits.maxSkills) {
      skipped.push({ skill, fault: tooMany(limits.maxSkills, skills.length) });
    } else if (keptBytes + skill.sizeBytes > limits.maxTotalBytes) {
      skipped.push({ skill, fault: tooLarge(limits.maxTotalBytes, totalBytes) });
    } else {
      kept.add(skill);
      keptBytes += skill.sizeBytes;
    }
  }
  return { kept: skills.filter((skill) => kept.has(skill)), skipped };
}

function tooMany(limit: number, actual: number): Fault {
  return new Fault("LIMIT_REACHED", `there are ${actual} skills; the first ${limit} by name are published`, {
    details: { limit, actual },
    hint: "remove skills, or split the workspace",
  });
}

function tooLarge(limit: number, actual: number): Fault {
  return new Fault("LIMIT_REACHED", `the skills have ${actual} bytes together; ${limit} are published`, {
    details: { limit, actual },
    hint: "shorten instruction files by moving text into companion files",
  });
}
