import { createHash } from "node:crypto";
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Digest } from "../../shared/content/digest.ts";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import type { EntryProblemSchema } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { PublishedSkillSchema } from "../../shared/gen/fairlead/v1/skills_pb.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { RootHandle } from "../../shared/root/root-handle.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import { admitSkills } from "../../shared/skill-file/admit.ts";
import { discoverSkills, type FoundSkill, workspaceSkillRoots } from "../../shared/skill-file/discover.ts";
import { type KnownSkills, openSkillFolders, readRevision } from "../../shared/skill-file/known-skills.ts";
import { instructionFileName, type SkillLimits } from "../../shared/skill-file/limits.ts";

/** What this machine publishes at one moment. */
export interface SkillPublication {
  /** Names the content: equal digest, equal content. */
  readonly digest: Digest;
  /** In order of workspace and path. */
  readonly skills: readonly MessageInitShape<typeof PublishedSkillSchema>[];
  /** What was left out; paths begin with the workspace's name. */
  readonly skipped: readonly MessageInitShape<typeof EntryProblemSchema>[];
}

/** A workspace whose skills are looked for. */
export interface SearchedWorkspace {
  readonly name: string;
  /** Its folder, or why it could not be opened. */
  readonly root: RootHandle | Fault;
  readonly known: KnownSkills;
}

interface Published {
  readonly workspace: string;
  readonly place: OpenPlace;
  readonly found: FoundSkill;
  readonly name: string;
  readonly key: string;
  readonly sizeBytes: number;
}

interface OpenPlace {
  readonly root: RootHandle;
  readonly known: KnownSkills;
}

/** What `findSkills` takes. */
export interface FindSkillsOptions {
  readonly limits: SkillLimits;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** Looks for the skills of all workspaces. A workspace that cannot be searched is skipped, and the others are not. */
export async function findSkills(
  workspaces: readonly SearchedWorkspace[],
  options: FindSkillsOptions,
): Promise<SkillPublication> {
  const all: Published[] = [];
  const skipped: { path: string; fault: Fault }[] = [];
  for (const workspace of workspaces) {
    const { name } = workspace;
    try {
      const { root, known } = workspace;
      if (root instanceof Fault) throw root;
      const folders = openSkillFolders(root, { ...options, known });
      const found = await discoverSkills(folders, { roots: workspaceSkillRoots, ...options });
      for (const skill of found.skills) all.push(toPublished(name, { root, known }, skill));
      for (const problem of found.skipped)
        skipped.push({ path: `${name}/${problem.path}`, fault: problem.fault });
    } catch (error) {
      options.signal.throwIfAborted();
      if (!isFault(error)) throw error;
      skipped.push({ path: name, fault: error });
    }
  }
  const admitted = admitSkills(all, options.limits);
  for (const { skill, fault } of admitted.skipped) skipped.push({ path: skill.key, fault });
  const skills: MessageInitShape<typeof PublishedSkillSchema>[] = [];
  for (const skill of admitted.kept) {
    const { found, place } = skill;
    const isOk = found.skill.state === "ok";
    const look = { known: place.known, signal: options.signal };
    const revision = isOk ? await readRevision(place.root, found.folder, look) : "";
    skills.push({ ...toWire(skill), revision });
  }
  return toPublication(skills, skipped);
}

function toPublished(workspace: string, place: OpenPlace, found: FoundSkill): Published {
  return {
    workspace,
    place,
    found,
    name: found.name,
    key: `${workspace}/${found.folder}`,
    sizeBytes: found.sizeBytes,
  };
}

function toPublication(
  skills: readonly MessageInitShape<typeof PublishedSkillSchema>[],
  skipped: readonly { readonly path: string; readonly fault: Fault }[],
): SkillPublication {
  const hash = createHash("sha256").update("published skills 1");
  // Sizes and digests are numbers and texts here: JSON tells equal lists apart from others, field by field.
  for (const skill of skills)
    hash.update("\n").update(JSON.stringify({ ...skill, sizeBytes: String(skill.sizeBytes) }));
  for (const { path, fault } of skipped)
    hash.update("\n").update(JSON.stringify([path, fault.code, fault.message]));
  return {
    digest: `sha256:${hash.digest("hex")}` as Digest,
    skills,
    skipped: skipped.map(({ path, fault }) => ({ path, fault: toWireFault(fault) })),
  };
}

function toWire({ workspace, found, sizeBytes }: Published): MessageInitShape<typeof PublishedSkillSchema> {
  const { skill } = found;
  const isOk = skill.state === "ok";
  return {
    workspace,
    folder: found.folder,
    name: found.name,
    description: isOk ? skill.description : "",
    state: skill.state,
    diagnostics: skill.diagnostics.map((diagnostic) => ({
      path: `${found.folder}/${instructionFileName}`,
      line: diagnostic.line,
      severity: diagnostic.severity,
      message: diagnostic.message,
      hint: diagnostic.hint,
      code: diagnostic.code ?? "",
    })),
    digest: skill.digest ?? "",
    sizeBytes: BigInt(sizeBytes),
    frontMatterJson: isOk ? JSON.stringify(skill.frontMatter) : "",
  };
}
