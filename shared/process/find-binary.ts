import { access, constants, stat } from "node:fs/promises";
import path from "node:path";

/** Endings that make a file a program on Windows, where none has a permission for it. */
const programEndings = [".exe", ".cmd", ".bat", ".com"];

/**
 * Where `name` is found on `searchPath` (folders as `PATH` names them): the first regular file there that this account
 * may execute, by its absolute path, links not resolved. Undefined when there is none, and for a name with a slash.
 * Folders that are not absolute are left out: they would mean another place in each folder that a command runs in.
 */
export async function findBinary(name: string, searchPath: string): Promise<string | undefined> {
  if (name === "" || /[/\\\0]/.test(name)) return undefined;
  const endings = process.platform === "win32" ? ["", ...programEndings] : [""];
  for (const folder of searchPath.split(path.delimiter)) {
    if (!path.isAbsolute(folder)) continue;
    for (const ending of endings) {
      const file = path.join(folder, name + ending);
      if (await isProgram(file)) return file;
    }
  }
  return undefined;
}

async function isProgram(file: string): Promise<boolean> {
  try {
    if (!(await stat(file)).isFile()) return false;
    await access(file, constants.X_OK);
    return true;
  } catch {
    // Absent, unreadable or not executable: no program for this account in any case.
    return false;
  }
}
