import type { SkillGate } from "../../shared/gen/fairlead/v1/skills_pb.ts";
import { type FailedGate, gateNames } from "../../shared/skill-file/gates.ts";
import type { SkillReason } from "./catalogue-skill.ts";

/** Most names of one gate that are kept, and their length. */
const maxMissing = 32;
const maxNameLength = 200;

/** What a machine said does not hold, as far as it is well-formed; one entry a gate, in the order of the gates. */
export function checkFailedGates(wire: readonly SkillGate[]): readonly FailedGate[] {
  return gateNames.flatMap((gate) => {
    const failure = wire.find((one) => one.gate === gate);
    if (!failure) return [];
    const missing = failure.missing
      .slice(0, maxMissing)
      .map((name) => name.slice(0, maxNameLength).toWellFormed());
    return [{ gate, missing }];
  });
}

/** Why a skill is not offered, in words that name the gate, what is missing, and the machine that was asked. */
export function toGateReasons(
  failed: readonly FailedGate[],
  { alias, name, hasRecipe }: GatedSkill,
): readonly SkillReason[] {
  return failed.map((failure) => {
    const words = wordsOf(failure, alias);
    const isInstalled = hasRecipe && (failure.gate === "bins" || failure.gate === "anyBins");
    const hint = isInstalled ? `fairlead skills install-deps ${name}` : words.hint;
    return { ...words, hint, path: "", line: 0 };
  });
}

/** A skill whose gates were judged. */
export interface GatedSkill {
  /** Of the machine on which commands run. */
  readonly alias: string;
  /** The name that it is listed under. */
  readonly name: string;
  /** Whether its front matter says how what it needs is installed. */
  readonly hasRecipe: boolean;
}

function wordsOf(
  { gate, missing }: FailedGate,
  alias: string,
): Pick<SkillReason, "code" | "message" | "hint"> {
  const names = missing.join(", ");
  const first = missing[0] ?? "";
  switch (gate) {
    case "os":
      return {
        code: "gate_os",
        message: `it is for ${names} only, and ${alias} runs another system (os)`,
        hint: "use it on a machine with that system",
      };
    case "bins":
      return {
        code: "gate_bins",
        message: `it needs ${names}, which the commands of ${alias} do not find (requires.bins)`,
        hint: `install ${first} on ${alias}, in a folder of the PATH that fairlead node config show names there`,
      };
    case "anyBins":
      return {
        code: "gate_any_bins",
        message: `it needs one of ${names}, and the commands of ${alias} find none (requires.anyBins)`,
        hint: `install ${first} on ${alias}, in a folder of the PATH that fairlead node config show names there`,
      };
    case "env":
      return {
        code: "gate_env",
        message: `it needs the environment of the agent on ${alias} to hold ${names} (requires.env)`,
        hint: `set ${first} where the agent of ${alias} is started, and start it anew`,
      };
    case "config":
      return {
        code: "gate_config",
        message: `it needs ${names} to be true in the configuration of ${alias} (requires.config)`,
        hint: `set ${first} to true in the file that fairlead node config check names there`,
      };
  }
}
