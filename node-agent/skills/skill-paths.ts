import { Fault } from "../../shared/fault/fault.ts";
import {
  isBeneath,
  parseWorkspacePath,
  pathNames,
  relativePath,
  type WorkspacePath,
} from "../../shared/names/workspace-path.ts";
import { workspaceSkillRoots } from "../../shared/skill-file/discover.ts";
import { maxSkillDepth } from "../../shared/skill-file/limits.ts";
import { isInCache } from "../../shared/skill-file/skill-files.ts";

/** `text` as the folder of a skill: below a root of skills, where the search for skills would enter. */
export function parseSkillFolder(text: string): WorkspacePath {
  const folder = parseWorkspacePath(text, { field: "folder" });
  const root = workspaceSkillRoots.find((each) => folder !== each && isBeneath(folder, each));
  const names = root === undefined ? [] : pathNames(relativePath(folder, root));
  const isEntered = names.every((name) => !name.startsWith(".") && name !== "node_modules");
  if (root !== undefined && isEntered && names.length <= maxSkillDepth) return folder;
  throw new Fault("NOT_FOUND", `${folder === "" ? "the workspace's root" : folder} is no skill's folder`, {
    details: { path: folder, field: "folder" },
    hint: "fairlead skills ls",
  });
}

/** What of a workspace the watch of its skills covers: roots, groups, and what lies in skills but caches. */
export function isWatchedSkillPath(relative: string): boolean {
  const names = relative.split("/");
  if (isInCache(relative)) return false;
  if (relative === "skills" || relative === ".agents" || relative === ".agents/skills") return true;
  const depth = relative.startsWith("skills/") ? 1 : relative.startsWith(".agents/skills/") ? 2 : 0;
  if (depth === 0) return false;
  // Below the deepest skill nothing is published; a dot folder in a root is not entered.
  const below = names.slice(depth);
  return below.length <= maxSkillDepth + 1 && !below.some((name) => name.startsWith("."));
}
