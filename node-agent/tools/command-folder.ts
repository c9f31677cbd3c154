import { parseWorkspacePath, toPathPlatform } from "../../shared/names/workspace-path.ts";
import type { Exports } from "../workspace/exports.ts";
import type { OpenCommandFolder } from "./exec.ts";

/**
 * Opens the folders that commands run in, behind the machine's own permissions: what may not be read is no such folder.
 * Each is held open, so that whatever its name becomes meanwhile, the command is in the one that was judged.
 */
export function createCommandFolders(exports: Pick<Exports, "get">): OpenCommandFolder {
  return async (name, text) => {
    const workspace = await exports.get(name);
    const path = parseWorkspacePath(text, { platform: toPathPlatform(process.platform), field: "cwd" });
    const folder = await workspace.root.openFolder(path);
    return {
      cwd: folder.procPath,
      shown: folder.canonicalPath === "" ? `/${name}` : `/${name}/${folder.canonicalPath}`,
      signal: workspace.signal,
      [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
    };
  };
}
