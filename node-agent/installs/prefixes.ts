import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { mkdir, readdir, readFile, realpath, rename, rm, stat, symlink } from "node:fs/promises";
import path from "node:path";
import { digestOf } from "../../shared/content/digest.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { syncFolder, writePrivateFile } from "../../shared/identity/private-files.ts";

/** A binary of a prefix. */
export interface InstalledBinary {
  readonly name: string;
  /** Its file, links resolved. */
  readonly path: string;
  readonly digest: string;
}

/** A folder that is filled aside; nobody sees it before it is published. Disposing removes what was not published. */
export interface Staging extends AsyncDisposable {
  readonly dir: string;
}

/** The prefixes of this machine's skills: one folder a skill, below `installs` of the node's state. */
export interface Prefixes {
  /** The folder of a skill. */
  readonly folderOf: (key: string) => string;
  /** Folders with the binaries of every skill, in order; what was published last is what they hold. */
  readonly binFolders: () => readonly string[];
  readonly stage: () => Promise<Staging>;
  /** Puts a staging in the place of a skill's present version, in one step, and gives its place; at most two stay. */
  readonly publish: (staging: Staging, key: string, version: string) => Promise<string>;
  /** Removes stagings that nobody fills any more. */
  readonly sweep: () => Promise<void>;
}

/** Where the binaries of a version lie. */
export const binPath: string = path.join("node_modules", ".bin");

const stagingName = ".staging";
const currentName = "current";

/** The prefixes below `dir`, which is made when the first is. */
export function createPrefixes(dir: string): Prefixes {
  const folderOf = (key: string): string => path.join(dir, key);
  return {
    folderOf,
    binFolders: () =>
      listNow(dir)
        .filter((name) => !name.startsWith("."))
        .map((name) => path.join(dir, name, currentName, binPath)),
    stage: async () => {
      const made = path.join(dir, stagingName, randomBytes(8).toString("hex"));
      await mkdir(made, { recursive: true, mode: 0o700 });
      return { dir: made, [Symbol.asyncDispose]: () => rm(made, { recursive: true, force: true }) };
    },
    publish: async (staging, key, version) => {
      const folder = folderOf(key);
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const before = await tryReadLink(path.join(folder, currentName));
      // A name of its own also for what is installed again: what stands there may have been damaged since.
      const name = `${version}-${randomBytes(4).toString("hex")}`;
      await rename(staging.dir, path.join(folder, name));
      await syncFolder(folder);
      const link = path.join(folder, `.${currentName}-${randomBytes(4).toString("hex")}`);
      await symlink(name, link);
      await rename(link, path.join(folder, currentName));
      await syncFolder(folder);
      await removeOthers(folder, new Set([name, before ?? name, currentName]));
      return path.join(folder, currentName);
    },
    sweep: () => rm(path.join(dir, stagingName), { recursive: true, force: true }),
  };
}

/** A listing that is asked for whenever a command starts: few names, and none before the first install. */
function listNow(dir: string): readonly string[] {
  try {
    return readdirSync(dir).toSorted();
  } catch {
    return [];
  }
}

async function tryReadLink(link: string): Promise<string | undefined> {
  try {
    return path.basename(await realpath(link));
  } catch {
    return undefined;
  }
}

async function removeOthers(folder: string, kept: ReadonlySet<string>): Promise<void> {
  for (const name of await readdir(folder))
    if (!kept.has(name)) await rm(path.join(folder, name), { recursive: true, force: true });
}

/**
 * The binaries of a filled folder, by name: each an executable regular file with one name that lies in it, links resolved.
 * `INSTALL_FAILED` with reason `binary_missing`, `PATH_ESCAPES` or `HARDLINK_REFUSED` for one that is not.
 */
export async function verifyBinaries(
  dir: string,
  names: readonly string[],
): Promise<readonly InstalledBinary[]> {
  const inside = await realpath(dir);
  const found: InstalledBinary[] = [];
  for (const name of names) {
    const file = await tryRealpath(path.join(dir, binPath, name));
    const entry = file === undefined ? undefined : await stat(file);
    if (file === undefined || !entry?.isFile() || (entry.mode & 0o111) === 0) {
      throw new Fault("INSTALL_FAILED", `the install did not make the program ${name}`, {
        details: { reason: "binary_missing", bin: name, searched: [binPath] },
        hint: "mend the skill's recipe: its bins are the names of programs that the package has",
      });
    }
    if (!file.startsWith(inside + path.sep))
      throw new Fault("PATH_ESCAPES", `${name} leads out of its folder`, { details: { bin: name } });
    if (entry.nlink !== 1)
      throw new Fault("HARDLINK_REFUSED", `${name} is known under another name too`, {
        details: { bin: name },
      });
    found.push({ name, path: path.relative(inside, file), digest: digestOf(await readFile(file)) });
  }
  return found;
}

async function tryRealpath(file: string): Promise<string | undefined> {
  try {
    return await realpath(file);
  } catch {
    return undefined;
  }
}

/** Writes the receipt of a version beside it. */
export async function writeReceipt(dir: string, receipt: unknown): Promise<void> {
  await writePrivateFile(path.join(dir, "receipt.json"), `${JSON.stringify(receipt)}\n`);
}
