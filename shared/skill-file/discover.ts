import { Fault, isFault } from "../fault/fault.ts";
import { compareByUtf8 } from "../names/byte-order.ts";
import {
  appendPath,
  baseName,
  joinPath,
  parseWorkspacePath,
  type WorkspacePath,
} from "../names/workspace-path.ts";
import type { Entry, Listing, Problem } from "../root/root-handle.ts";
import type { SmallFile } from "../root/small-file.ts";
import type { Diagnostic } from "./diagnostic.ts";
import { instructionFileName, maxSearchedFolders, maxSkillDepth, type SkillLimits } from "./limits.ts";
import { type BrokenSkill, type ParsedSkill, parseSkillFile } from "./parse-skill-file.ts";

/** The folders that are searched: what a root handle gives, behind whatever policy stands before it. */
export interface SkillFolders {
  /** A folder's entries; those that policy hides are not among them. */
  list(path: WorkspacePath): Promise<Listing>;
  /** A file's bytes; more than `maxBytes` is `TOO_LARGE`, before more is held. */
  read(path: WorkspacePath, maxBytes: number): Promise<SmallFile>;
  /** What an instruction file said when it was read last, where the entry shows that it still does. */
  recall?(instructions: Entry): KeptSkill | undefined;
  /** Takes what an instruction file said, for `recall`; `entry` is that of the file that was read. */
  keep?(entry: Entry, skill: KeptSkill): void;
}

/** What is kept of an instruction file: all but its body. */
export type KeptSkill = Omit<ParsedSkill, "body"> | BrokenSkill;

/** A skill that was found. */
export interface FoundSkill {
  /** Its folder. */
  readonly folder: WorkspacePath;
  /** The root that it was found under. */
  readonly root: WorkspacePath;
  /** Of its front matter; its folder's for one that is broken. */
  readonly name: string;
  /** What its instruction file says; the body is not kept. */
  readonly skill: KeptSkill;
  /** Size of its instruction file; 0 where it was not read. */
  readonly sizeBytes: number;
}

/** What a search gave. A thing that could not be read is a problem; it never ends the search. */
export interface Discovery {
  /** In order of root, then of path. */
  readonly skills: readonly FoundSkill[];
  /** Folders and links that were not entered, with the reason. */
  readonly skipped: readonly Problem[];
}

/** What `discoverSkills` takes. */
export interface DiscoverOptions {
  /** Searched in this order; one that does not exist holds nothing. */
  readonly roots: readonly WorkspacePath[];
  readonly limits: SkillLimits;
  readonly signal?: AbortSignal;
}

/** Where a workspace keeps its skills, first wins. */
export const workspaceSkillRoots: readonly WorkspacePath[] = [
  parseWorkspacePath("skills"),
  parseWorkspacePath(".agents/skills"),
];

/**
 * Finds the skills below `roots`: a folder with a `SKILL.md` is one and is not searched further, others are searched to
 * six levels; dot folders and `node_modules` are not entered. The order of a folder's entries changes nothing.
 */
export async function discoverSkills(folders: SkillFolders, options: DiscoverOptions): Promise<Discovery> {
  const search = new Search(folders, options);
  for (const root of options.roots) await search.run(root);
  return { skills: search.skills, skipped: search.skipped };
}

class Search {
  readonly skills: FoundSkill[] = [];
  readonly skipped: Problem[] = [];
  readonly #folders: SkillFolders;
  readonly #options: DiscoverOptions;
  readonly #seen = new Set<WorkspacePath>();
  #entered = 0;

  constructor(folders: SkillFolders, options: DiscoverOptions) {
    this.#folders = folders;
    this.#options = options;
  }

  async run(root: WorkspacePath): Promise<void> {
    await this.#enter({ root, path: root, depth: 0 });
  }

  async #enter(at: At): Promise<void> {
    this.#options.signal?.throwIfAborted();
    const listing = await this.#tryList(at);
    // A linked folder may lead to one that was searched already: each real folder is searched once.
    if (!listing || this.#seen.has(listing.canonicalPath)) return;
    this.#seen.add(listing.canonicalPath);
    const instructions = listing.entries.find((entry) => baseName(entry.path) === instructionFileName);
    if (instructions && at.depth > 0) {
      this.skills.push(await this.#readSkill(at, instructions));
      return;
    }
    if (at.depth === maxSkillDepth) return;
    for (const problem of listing.problems) this.skipped.push(problem);
    for (const name of searchedNames(listing)) {
      await this.#enter({ root: at.root, path: joinPath(at.path, name), depth: at.depth + 1 });
    }
  }

  async #tryList(at: At): Promise<Listing | undefined> {
    this.#entered += 1;
    if (this.#entered > maxSearchedFolders) return this.#skipForLimit(at);
    try {
      return await this.#folders.list(at.path);
    } catch (error) {
      this.#options.signal?.throwIfAborted();
      const isAbsentRoot = at.depth === 0 && (isFault(error, "NOT_FOUND") || isFault(error, "POLICY_DENIED"));
      if (!isFault(error)) throw error;
      if (!isAbsentRoot) this.skipped.push({ path: at.path, fault: error });
      return undefined;
    }
  }

  #skipForLimit(at: At): undefined {
    if (this.#entered > maxSearchedFolders + 1) return;
    const fault = new Fault("LIMIT_REACHED", `more than ${maxSearchedFolders} folders were to be searched`, {
      details: { limit: maxSearchedFolders, path: at.path },
      hint: "keep only skills below the skills folder",
    });
    this.skipped.push({ path: at.path, fault });
  }

  async #readSkill(at: At, instructions: Entry): Promise<FoundSkill> {
    const folderName = baseName(at.path);
    const found = { folder: at.path, root: at.root };
    const recalled = this.#folders.recall?.(instructions);
    if (recalled)
      return {
        ...found,
        name: nameOf(recalled, folderName),
        skill: recalled,
        sizeBytes: instructions.sizeBytes,
      };
    try {
      const path = appendPath(at.path, parseWorkspacePath(instructionFileName));
      const file = await this.#folders.read(path, this.#options.limits.maxInstructionBytes);
      const skill = withoutBody(parseSkillFile(file.content, folderName));
      this.#folders.keep?.(file.entry, skill);
      return { ...found, name: nameOf(skill, folderName), skill, sizeBytes: file.content.byteLength };
    } catch (error) {
      this.#options.signal?.throwIfAborted();
      if (!isFault(error)) throw error;
      const fault = error;
      return {
        ...found,
        name: folderName,
        skill: { state: "broken", diagnostics: [unreadable(fault)] },
        sizeBytes: 0,
      };
    }
  }
}

interface At {
  readonly root: WorkspacePath;
  readonly path: WorkspacePath;
  readonly depth: number;
}

function searchedNames(listing: Listing): readonly string[] {
  return listing.entries
    .filter((entry) => entry.kind === "folder" || entry.kind === "link")
    .map((entry) => baseName(entry.path))
    .filter((name) => !name.startsWith(".") && name !== "node_modules")
    .toSorted(compareByUtf8);
}

function nameOf(skill: KeptSkill, folderName: string): string {
  return skill.state === "ok" ? skill.name : folderName;
}

function withoutBody(parsed: ParsedSkill | BrokenSkill): KeptSkill {
  if (parsed.state === "broken") return parsed;
  const { body: _, ...kept } = parsed;
  return kept;
}

function unreadable(fault: Fault): Diagnostic {
  return {
    severity: "error",
    line: 0,
    message: fault.message,
    hint: fault.hint ?? "make the file readable for the node",
    code: fault.code,
    details: fault.details,
  };
}
