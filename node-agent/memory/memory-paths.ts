import { Fault } from "../../shared/fault/fault.ts";
import { isBeneath, parseWorkspacePath, type WorkspacePath } from "../../shared/names/workspace-path.ts";

/** The folder of memory files. */
export const memoryFolder: WorkspacePath = parseWorkspacePath("memory");

/** The memory files that lie in the root of a workspace. */
export const rootMemoryFiles: readonly WorkspacePath[] = [
  parseWorkspacePath("MEMORY.md"),
  parseWorkspacePath("USER.md"),
];

/** Whether `path` names a memory file: `MEMORY.md`, `USER.md`, or a `.md` file below `memory/`. */
export function isMemoryPath(path: WorkspacePath): boolean {
  if (rootMemoryFiles.includes(path)) return true;
  return path !== memoryFolder && isBeneath(path, memoryFolder) && path.endsWith(".md");
}

/** `text` as the path of a memory file; another path of the workspace is `POLICY_DENIED`, whether it exists or not. */
export function parseMemoryPath(text: string): WorkspacePath {
  const path = parseWorkspacePath(text);
  if (isMemoryPath(path)) return path;
  throw noMemoryFile(path);
}

/** What a path of the workspace gets that names no memory file. */
export function noMemoryFile(path: WorkspacePath): Fault {
  return new Fault("POLICY_DENIED", `${path === "" ? "the workspace's root" : path} is no memory file`, {
    details: { path, rule: "memory_files", side: "node" },
    hint: "memory files are MEMORY.md, USER.md and .md files below memory/",
  });
}

/** What of a workspace the watch of its memory files covers. */
export function isWatchedMemoryPath(relative: string, isFolder: boolean | undefined): boolean {
  if (relative === "MEMORY.md" || relative === "USER.md" || relative === "memory") return true;
  if (!relative.startsWith("memory/")) return false;
  return isFolder !== false || relative.endsWith(".md");
}
