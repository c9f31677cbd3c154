import { type Digest, isDigest } from "../content/digest.ts";
import { Fault, isFault } from "../fault/fault.ts";
import type { Clock } from "../lifetime/clock.ts";
import { Turn } from "../lifetime/turn.ts";
import type { WorkspacePath } from "../names/workspace-path.ts";
import { KnownFiles } from "../root/known-files.ts";
import { readWhole } from "../root/read-whole.ts";
import type { RootHandle } from "../root/root-handle.ts";
import { revisionOf } from "./bundle.ts";
import type { KeptSkill, SkillFolders } from "./discover.ts";
import { listSkillFiles, type SkillFiles } from "./skill-files.ts";

/** What was made of the files of a root's skills when they were read last. */
export interface KnownSkills {
  readonly instructions: KnownFiles<KeptSkill>;
  readonly digests: KnownFiles<Digest>;
}

/** What a look at a root takes. */
export interface LookAtSkills {
  readonly known: KnownSkills;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** A memory of nothing yet. */
export function createKnownSkills(clock: Clock): KnownSkills {
  return { instructions: new KnownFiles(clock), digests: new KnownFiles(clock) };
}

/** The folders of a root for one search, with turns for others between its steps; what was known of files is used again. */
export function openSkillFolders(root: RootHandle, { known, clock, signal }: LookAtSkills): SkillFolders {
  known.instructions.begin();
  known.digests.begin();
  const turn = new Turn(clock);
  return {
    list: async (path) => {
      await turn.pause(signal);
      return await root.list(path);
    },
    read: async (path, maxBytes) => {
      const file = await readWhole(root, path, { maxBytes });
      if (file) return file;
      throw new Fault("PATH_CHANGED", `${path} changes faster than it can be read`, { details: { path } });
    },
    recall: (entry) => known.instructions.find(entry),
    keep: (entry, skill) => {
      known.instructions.keep(entry, skill);
      // It was read just now: its revision needs no second look.
      if (skill.state === "ok" && isDigest(skill.digest)) known.digests.keep(entry, skill.digest);
    },
  };
}

/**
 * The revision of the skill in a folder. Empty for one whose files cannot be told as a whole: it is listed, and its files
 * say why when they are asked for.
 */
export async function readRevision(
  root: RootHandle,
  folder: WorkspacePath,
  { known, signal }: Omit<LookAtSkills, "clock">,
): Promise<string> {
  try {
    return revisionOfFiles(await listSkillFiles(root, folder, { known: known.digests, signal }));
  } catch (error) {
    signal.throwIfAborted();
    if (isFault(error)) return "";
    throw error;
  }
}

/** The revision of a skill with these files; what cannot be served counts with its code. */
export function revisionOfFiles({ files, problems }: SkillFiles): Digest {
  return revisionOf(
    files,
    problems.map(({ path, fault }) => `${path} ${fault.code}`),
  );
}
