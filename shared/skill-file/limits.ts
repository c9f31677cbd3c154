/** What a set of skills may hold. */
export interface SkillLimits {
  /** Most skills of all roots together. */
  readonly maxSkills: number;
  /** Longest instruction file, in bytes. */
  readonly maxInstructionBytes: number;
  /** Most bytes of all instruction files together. */
  readonly maxTotalBytes: number;
}

/** The limits of both sides unless their configuration says less. */
export const defaultSkillLimits: SkillLimits = {
  maxSkills: 1000,
  maxInstructionBytes: 256 * 1024,
  maxTotalBytes: 16 * 1024 * 1024,
};

/** How many levels below a root are searched for skills; the root's own folders are level 1. */
export const maxSkillDepth = 6;

/** Most folders that one search enters: a root that holds more is searched in part, and says so. */
export const maxSearchedFolders = 20_000;

/** Longest front matter, in bytes: far more than any real one, and little enough to be parsed at once. */
export const maxFrontMatterBytes: number = 16 * 1024;

/** The name of an instruction file. */
export const instructionFileName = "SKILL.md";
