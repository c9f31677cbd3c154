import { gatewayOwner } from "../../shared/names/alias.ts";
import type { FailedGate } from "../../shared/skill-file/gates.ts";
import type { CatalogueSkill, SkillReason, SkillState } from "./catalogue-skill.ts";
import { toGateReasons } from "./gate-reasons.ts";
import type { GatewaySkill } from "./root-reader.ts";

/** What a list of the gateway's skills is made by. */
export interface GatewayListOptions {
  /** The agent of the session; without one, no agent's Workshop counts. */
  readonly agent: string | undefined;
  /** The machine on which commands run: its alias, or the gateway. */
  readonly machine: string;
  /** What does not hold there; undefined while the machine has not said. */
  readonly judge: (skill: GatewaySkill) => readonly FailedGate[] | undefined;
  /** Places of skills that come before all of these, by name. */
  readonly taken: ReadonlyMap<string, string>;
}

/** The gateway's skills in a list: of one name the first in the order of roots wins, the others are shadowed by it. */
export function listGatewaySkills(
  skills: readonly GatewaySkill[],
  options: GatewayListOptions,
): readonly CatalogueSkill[] {
  const winners = new Map(options.taken);
  return skills.flatMap((skill) => {
    if (skill.agent !== undefined && skill.agent !== options.agent) return [];
    const winner = skill.state === "ok" ? winners.get(skill.name) : undefined;
    if (skill.state === "ok" && winner === undefined) winners.set(skill.name, placeOf(skill));
    return [toListed(skill, winner, options)];
  });
}

/** Where a skill of the gateway lies, as it is shown. */
function placeOf({ source, folder }: GatewaySkill): string {
  return `${gatewayOwner}:${source}/${folder}`;
}

function toListed(
  skill: GatewaySkill,
  winner: string | undefined,
  options: GatewayListOptions,
): CatalogueSkill {
  const { state, reasons } = stateOf(skill, winner, options);
  const { name, description, source, root, folder, digest, revision, frontMatterJson } = skill;
  return {
    name,
    description,
    owner: gatewayOwner,
    nodeId: "",
    workspace: "",
    source,
    root,
    folder,
    state,
    reasons: [...reasons, ...skill.reasons],
    digest,
    revision,
    location: skill.state === "ok" && winner === undefined ? `skill://${gatewayOwner}/${name}/SKILL.md` : "",
    frontMatterJson,
  };
}

function stateOf(
  skill: GatewaySkill,
  winner: string | undefined,
  { machine, judge }: GatewayListOptions,
): { readonly state: SkillState; readonly reasons: readonly SkillReason[] } {
  if (skill.state !== "ok") return { state: skill.state, reasons: [] };
  if (winner !== undefined) return { state: "shadowed", reasons: [shadowed(winner)] };
  const failed = judge(skill);
  if (failed === undefined) return { state: "ineligible", reasons: [unknown(machine)] };
  if (failed.length === 0) return { state: "eligible", reasons: [] };
  const reasons = toGateReasons(failed, { alias: machine, name: skill.name, hasRecipe: false });
  return { state: "ineligible", reasons };
}

/** Why a skill does not count beside another of its name. */
export function shadowed(winner: string): SkillReason {
  return {
    code: "shadowed",
    message: `${winner} has the same name and comes first in the order of roots`,
    hint: "rename one of the two",
    path: winner,
    line: 0,
  };
}

function unknown(machine: string): SkillReason {
  return {
    code: "gate_unknown",
    message: `${machine} has not said yet whether it has what the skill needs`,
    hint: `fairlead nodes show ${machine}`,
    path: "",
    line: 0,
  };
}
