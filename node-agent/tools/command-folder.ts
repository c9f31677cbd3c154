import { join } from "node:path";
import { Fault } from "../../shared/fault/fault.ts";
import { parseWorkspacePath, toPathPlatform } from "../../shared/names/workspace-path.ts";
import type { Exports } from "../workspace/exports.ts";
import type { OpenCommandFolder } from "./exec.ts";

/** Finds the folders that commands run in, behind the machine's own permissions: what may not be read is no such folder. */
export function createCommandFolders(exports: Pick<Exports, "get">): OpenCommandFolder {
  return async (name, text) => {
    const workspace = await exports.get(name);
    const path = parseWorkspacePath(text, { platform: toPathPlatform(process.platform), field: "cwd" });
    const entry = await workspace.root.stat(path);
    if (entry.kind !== "folder") {
      throw new Fault("NOT_A_DIRECTORY", `${text} is no folder`, { details: { field: "cwd", path: text } });
    }
    return {
      cwd: join(workspace.settings.dir, entry.canonicalPath),
      shown: entry.canonicalPath === "" ? `/${name}` : `/${name}/${entry.canonicalPath}`,
      signal: workspace.signal,
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  };
}
