import { basename, dirname } from "node:path";
import type { Fault } from "../fault/fault.ts";
import { parseWorkspacePath, rootPath, type WorkspacePath } from "../names/workspace-path.ts";
import { openRoot } from "../root/open-root.ts";
import type { RootHandle } from "../root/root-handle.ts";
import type { Diagnostic } from "./diagnostic.ts";
import { discoverSkills, type FoundSkill, type SkillFolders, workspaceSkillRoots } from "./discover.ts";
import { defaultSkillLimits, instructionFileName } from "./limits.ts";

/** What is said of one `SKILL.md`. */
export interface CheckedSkill {
  readonly name: string;
  readonly description: string;
  /** The instruction file, relative to the folder that was checked. */
  readonly path: string;
  readonly state: "ok" | "broken";
  /** Errors of a broken one, warnings of any. */
  readonly diagnostics: readonly Diagnostic[];
}

/** What is said of a folder. */
export interface CheckedFolder {
  /** In the order in which they are found. */
  readonly skills: readonly CheckedSkill[];
  /** What was not looked into, with the reason. */
  readonly skipped: readonly { readonly path: string; readonly fault: Fault }[];
}

/**
 * Checks the skills of a folder on this machine by the code that loads them: of one skill, of a folder of skills, or of
 * a workspace (`skills` and `.agents/skills`). `folder` is absolute; `NOT_FOUND` and `NOT_A_DIRECTORY` as any root.
 */
export async function checkSkillFolder(folder: string, signal?: AbortSignal): Promise<CheckedFolder> {
  await using root = await openRoot(folder);
  const top = await root.list(rootPath);
  const names = new Set(top.entries.map((entry) => entry.path as string));
  const isSkill = names.has(instructionFileName);
  if (isSkill) return await checkOne(folder, signal);
  const isWorkspace = names.has("skills") || names.has(".agents");
  return await search(root, { roots: isWorkspace ? workspaceSkillRoots : [rootPath], prefix: "", signal });
}

/** A skill is found below a root, so that its own folder's name is judged as well. */
async function checkOne(folder: string, signal?: AbortSignal): Promise<CheckedFolder> {
  await using root = await openRoot(dirname(folder));
  const name = parseWorkspacePath(basename(folder));
  return await search(root, { roots: [rootPath], prefix: `${name}/`, only: name, signal });
}

interface Search {
  readonly roots: readonly WorkspacePath[];
  /** Taken from the beginning of what is said of a path. */
  readonly prefix: string;
  /** The one folder of the root that is entered. */
  readonly only?: WorkspacePath;
  readonly signal: AbortSignal | undefined;
}

async function search(root: RootHandle, { roots, prefix, only, signal }: Search): Promise<CheckedFolder> {
  const folders: SkillFolders = {
    list: async (path) => {
      const listing = await root.list(path);
      if (only === undefined || path !== rootPath) return listing;
      return { ...listing, entries: listing.entries.filter((entry) => entry.path === only), problems: [] };
    },
    read: async (path, maxBytes) => root.readSmall(path, { maxBytes }),
  };
  const found = await discoverSkills(folders, {
    roots,
    limits: defaultSkillLimits,
    ...(signal ? { signal } : {}),
  });
  const shown = (path: string): string => (path.startsWith(prefix) ? path.slice(prefix.length) : path);
  return {
    skills: found.skills.map((skill) => toChecked(skill, shown)),
    skipped: found.skipped.map(({ path, fault }) => ({ path: shown(path), fault })),
  };
}

function toChecked({ name, folder, skill }: FoundSkill, shown: (path: string) => string): CheckedSkill {
  return {
    name,
    description: skill.state === "ok" ? skill.description : "",
    path: shown(`${folder}/${instructionFileName}`),
    state: skill.state,
    diagnostics: skill.diagnostics,
  };
}
