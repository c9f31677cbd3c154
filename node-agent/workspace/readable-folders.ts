import { realpathSync } from "node:fs";
import type { ExportSettings } from "./export-settings.ts";

/**
 * The folder of a workspace and those that its links may lead into, each by the name that was configured and by its real
 * one: a permission goes by the name that is opened, and a trusted folder is opened by either.
 */
export function readableFolders({ dir, allowSymlinkTargets = [] }: ExportSettings): readonly string[] {
  return [dir, ...allowSymlinkTargets.map((target) => target.path)].flatMap((folder) => {
    try {
      const real = realpathSync(folder);
      return real === folder ? [folder] : [folder, real];
    } catch {
      // A folder that is not there now is known by its name alone.
      return [folder];
    }
  });
}
