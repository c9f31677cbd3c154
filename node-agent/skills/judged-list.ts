import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { digestOf } from "../../shared/content/digest.ts";
import type { JsonValue } from "../../shared/fault/fault.ts";
import {
  type PublishedSkill,
  SkillGateSchema,
  type SkillsListPublishedResponse,
  type SkillsListPublishedResponseSchema,
} from "../../shared/gen/fairlead/v1/skills_pb.ts";
import { isMapping } from "../../shared/skill-file/fields.ts";
import {
  type FailedGate,
  gateNames,
  judgeGates,
  type MachineFacts,
  readGates,
  type SkillGates,
} from "../../shared/skill-file/gates.ts";

/** A skill that has gates. */
export interface GatedSkill {
  /** `<workspace>/<folder>`. */
  readonly key: string;
  readonly gates: SkillGates;
}

/** What a worker found, with what this machine says of it. */
export interface JudgedList {
  /** Names the content and what was judged: equal digest, equal list. */
  readonly digest: string;
  readonly parts: readonly SkillsListPublishedResponse[];
  readonly failed: FailedGates;
  /** Those to judge again when the machine changes. */
  readonly gated: readonly GatedSkill[];
  /** What the worker calls its list. */
  readonly foundDigest: string;
}

/** Failed gates by the key of their skill; a skill whose gates hold is not in it. */
export type FailedGates = ReadonlyMap<string, readonly FailedGate[]>;

/** Takes a whole list from the worker, which bounds it, and judges the gates of its skills. */
export async function judgeList(
  parts: AsyncIterable<SkillsListPublishedResponse>,
  facts: MachineFacts,
): Promise<JudgedList> {
  const all: SkillsListPublishedResponse[] = [];
  const gated: GatedSkill[] = [];
  for await (const part of parts) {
    all.push(part);
    for (const skill of part.skills) gated.push(...toGated(skill));
  }
  const foundDigest = all[0]?.digest ?? "";
  const failed = await judgeAll(gated, facts);
  return { digest: digestWith(foundDigest, failed), parts: all, failed, gated, foundDigest };
}

/** Judges the gates of these skills now. */
export async function judgeAll(gated: readonly GatedSkill[], facts: MachineFacts): Promise<FailedGates> {
  const failed = new Map<string, readonly FailedGate[]>();
  for (const { key, gates } of gated) {
    const failures = await judgeGates(gates, facts);
    if (failures.length > 0) failed.set(key, failures);
  }
  return failed;
}

/** The digest of a list with these failures: that of the worker's own list when there is none. */
export function digestWith(foundDigest: string, failed: FailedGates): string {
  return failed.size === 0 ? foundDigest : digestOf(JSON.stringify([foundDigest, [...failed]]));
}

/** The list as it is sent, with the failures in their places. */
export function* partsOf(
  list: JudgedList,
  epoch: bigint,
): Generator<MessageInitShape<typeof SkillsListPublishedResponseSchema>> {
  for (const [position, part] of list.parts.entries()) {
    const skills = part.skills.map((skill) => withFailures(skill, list.failed));
    yield position === 0 ? { ...part, skills, digest: list.digest, epoch } : { ...part, skills };
  }
}

function withFailures(skill: PublishedSkill, failed: FailedGates): PublishedSkill {
  const failures = failed.get(keyOf(skill));
  if (!failures) return skill;
  const failedGates = failures.map(({ gate, missing }) =>
    create(SkillGateSchema, { gate, missing: [...missing] }),
  );
  return { ...skill, failedGates };
}

function toGated(skill: PublishedSkill): readonly GatedSkill[] {
  if (skill.state !== "ok") return [];
  const frontMatter = JSON.parse(skill.frontMatterJson) as JsonValue;
  const gates = readGates(isMapping(frontMatter) ? frontMatter : {});
  return gateNames.some((name) => gates[name].length > 0) ? [{ key: keyOf(skill), gates }] : [];
}

function keyOf(skill: PublishedSkill): string {
  return `${skill.workspace}/${skill.folder}`;
}
