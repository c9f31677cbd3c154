import { pathNames, type WorkspacePath } from "./workspace-path.ts";

/**
 * Whether a link at `path` with the text `target` leads out of the folder that `path` is relative to. By its text alone:
 * what stands on the way may come later.
 */
export function leadsOut(path: WorkspacePath, target: string): boolean {
  if (target === "" || target.includes("\0") || target.startsWith("/")) return true;
  let depth = pathNames(path).length - 1;
  for (const name of target.split("/")) {
    if (name === "" || name === ".") continue;
    depth += name === ".." ? -1 : 1;
    if (depth < 0) return true;
  }
  return false;
}
