import type { BigIntStats } from "node:fs";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import { pathNames, type WorkspacePath } from "../../names/workspace-path.ts";
import {
  notAFolder,
  notFound,
  pathEscapes,
  rootFault,
  symlinkLoop,
  symlinkRefused,
  targetNotWritable,
} from "../refusals.ts";
import { isStagedName } from "../staged-name.ts";
import type { TrustedFolder } from "../trusted-folder.ts";
import { type Descriptor, openFolder, readLink, statEntry } from "./descriptor.ts";
import { findTrusted, type TrustedPlace } from "./trusted.ts";

/** Where a walk begins, and its rules. */
export interface Start {
  /** The folder that nothing may lead out of. */
  readonly top: Descriptor;
  /** Its absolute path: a link with an absolute text that lies beneath it stays inside. */
  readonly realPath: string;
  readonly followSymlinks: boolean;
  /** Folders outside that links may lead into. */
  readonly trusted: readonly TrustedFolder[];
  /** Whether something is to be changed at the place: what may only be read is then not entered. */
  readonly isChanging?: boolean;
}

/** The same beginning for a change. */
export function forChange(start: Start): Start {
  return { ...start, isChanging: true };
}

/** The same beginning where links stay in the root, whatever is trusted outside: for what may be reached by an alias. */
export function followingFolders(start: Start): Start {
  return { ...start, followSymlinks: true, trusted: [] };
}

/** The same beginning for a canonical path: no link in it, but those that lead into trusted folders. */
export function forCanonical(start: Start): Start {
  return { ...start, followSymlinks: false };
}

/** A place in a tree: the folder that holds an entry and the entry's name there; without a name the folder itself. */
export interface Place extends Disposable {
  readonly folder: Descriptor;
  readonly name: string | undefined;
  /** Every link resolved. */
  readonly canonicalPath: WorkspacePath;
}

/** What the last name of a path may be. */
export type LeafRule = "follow" | "keep";

/** Most links on the way to one entry. */
const maxLinks = 40;

/**
 * Walks from the start to the folder that holds `path`, opening each name through the descriptor of its folder, all in
 * this turn. With `follow` a link at the end is resolved too, with `keep` it is left as the entry; so it is where links
 * are not followed at all, and who opens the entry refuses it. The caller disposes the place.
 */
export function findPlace(start: Start, path: WorkspacePath, leaf: LeafRule): Place {
  const walk = new Walk(start, path);
  try {
    return walk.run(leaf);
  } catch (error) {
    walk[Symbol.dispose]();
    throw error;
  }
}

class Walk implements Place {
  readonly #start: Start;
  readonly #path: WorkspacePath;
  /** Names still to be walked, the next one last. */
  #pending: string[];
  readonly #names: string[] = [];
  readonly #folders: Descriptor[] = [];
  /** The absolute path of the folder that nothing leads out of now, and how many names lead to it. */
  #base: string;
  #floor = 0;
  /** A link that leads to a file in a trusted folder: the file is canonically where the link is. */
  #leaf: { readonly name: string } | undefined;
  #links = 0;
  #name: string | undefined;

  constructor(start: Start, path: WorkspacePath) {
    this.#start = start;
    this.#base = start.realPath;
    this.#path = path;
    this.#pending = pathNames(path).toReversed();
  }

  get folder(): Descriptor {
    return this.#folders.at(-1) ?? this.#start.top;
  }

  get name(): string | undefined {
    return this.#name;
  }

  get canonicalPath(): WorkspacePath {
    const name = this.#leaf?.name ?? this.#name;
    const names = name === undefined ? this.#names : [...this.#names, name];
    return names.join("/") as WorkspacePath;
  }

  run(leaf: LeafRule): Place {
    for (let name = this.#pending.pop(); name !== undefined; name = this.#pending.pop()) {
      if (name === "..") this.#up();
      else if (isStagedName(name)) throw notFound(this.#path);
      else if (this.#pending.length > 0) this.#enter(name);
      else if (leaf === "keep" || !this.#mayFollow || !this.#expandIfLink(name)) this.#name = name;
    }
    return this;
  }

  get #mayFollow(): boolean {
    return this.#start.followSymlinks || this.#start.trusted.length > 0;
  }

  #enter(name: string): void {
    try {
      this.#folders.push(openFolder(this.folder, name));
      this.#names.push(name);
    } catch (error) {
      if (errnoOf(error) !== "ENOTDIR") throw rootFault(error, this.#shownAt(name));
      if (!this.#expandIfLink(name)) throw notAFolder(this.#shownAt(name));
    }
  }

  /** Puts the names of a link's target in its place. A link where none is followed is refused. */
  #expandIfLink(name: string): boolean {
    const stats = statOrFault(this.folder, name, this.#shownAt(name));
    if (!stats?.isSymbolicLink()) return false;
    const linkPath = this.#shownAt(name);
    if (!this.#mayFollow) throw symlinkRefused(linkPath);
    this.#links += 1;
    if (this.#links > maxLinks) throw symlinkLoop(linkPath);
    const target = this.#readTarget(name, linkPath);
    const from = [this.#base, ...this.#names.slice(this.#floor)].join("/");
    const trusted = findTrusted(this.#start.trusted, { from, target, base: this.#base });
    if (trusted) {
      this.#enterTrusted(trusted, name);
      return true;
    }
    if (!this.#start.followSymlinks) throw symlinkRefused(linkPath);
    const below = target.startsWith("/") ? this.#fromTop(target, linkPath) : target;
    this.#pending.push(
      ...below
        .split("/")
        .filter((part) => part !== "" && part !== ".")
        .toReversed(),
    );
    return true;
  }

  /** From here on nothing leads out of what the link leads to, and what is in it is canonically below the link. */
  #enterTrusted({ realPath, rest, write }: TrustedPlace, name: string): void {
    const linkPath = this.#shownAt(name);
    if (this.#start.isChanging === true && !write) throw targetNotWritable(linkPath);
    try {
      let folder = this.#start.top.elsewhere(realPath);
      this.#folders.push(folder);
      for (const [index, below] of rest.entries()) {
        if (index === rest.length - 1 && this.#pending.length === 0 && isFileAt(folder, below)) {
          this.#leaf = { name };
          this.#name = below;
          return;
        }
        folder = openFolder(folder, below);
        this.#folders.pop()?.[Symbol.dispose]();
        this.#folders.push(folder);
      }
    } catch (error) {
      // By its text it leads into the folder; a link on that way may lead out again.
      throw errnoOf(error) === "ENOTDIR" ? symlinkRefused(linkPath) : rootFault(error, linkPath);
    }
    this.#names.push(name);
    this.#base = [realPath, ...rest].join("/");
    this.#floor = this.#names.length;
  }

  #readTarget(name: string, linkPath: string): string {
    try {
      const target = readLink(this.folder, name);
      if (target !== undefined) return target;
    } catch (error) {
      throw rootFault(error, linkPath);
    }
    throw notFound(linkPath);
  }

  #fromTop(target: string, linkPath: string): string {
    if (this.#floor > 0 && (target === this.#base || target.startsWith(`${this.#base}/`))) {
      while (this.#names.length > this.#floor) this.#leave();
      return target.slice(this.#base.length);
    }
    const top = this.#start.realPath;
    if (target !== top && !target.startsWith(`${top}/`)) throw pathEscapes(linkPath);
    while (this.#folders.length > 0) this.#leave();
    this.#base = top;
    this.#floor = 0;
    return target.slice(top.length);
  }

  #up(): void {
    if (this.#names.length === this.#floor) throw pathEscapes(this.#path);
    this.#leave();
  }

  #leave(): void {
    this.#folders.pop()?.[Symbol.dispose]();
    this.#names.pop();
  }

  #shownAt(name: string): string {
    return [...this.#names, name].join("/");
  }

  [Symbol.dispose](): void {
    for (const folder of this.#folders.splice(0)) folder[Symbol.dispose]();
  }
}

function isFileAt(folder: Descriptor, name: string): boolean {
  const stats = statEntry(folder, name);
  return stats !== undefined && !stats.isDirectory() && !stats.isSymbolicLink();
}

function statOrFault(folder: Descriptor, name: string, path: string): BigIntStats | undefined {
  try {
    return statEntry(folder, name);
  } catch (error) {
    throw rootFault(error, path);
  }
}

/** The folder at `path`, opened; `NOT_A_DIRECTORY` for anything else. The caller disposes it. */
export interface OpenedFolder extends Disposable {
  readonly folder: Descriptor;
  readonly canonicalPath: WorkspacePath;
}

/** Walks to the folder `path` itself and opens it. */
export function openFolderAt(start: Start, path: WorkspacePath): OpenedFolder {
  using place = findPlace(start, path, "follow");
  const folder = openLast(place, path);
  return { folder, canonicalPath: place.canonicalPath, [Symbol.dispose]: () => folder[Symbol.dispose]() };
}

function openLast(place: Place, path: WorkspacePath): Descriptor {
  try {
    return place.name === undefined ? place.folder.again() : openFolder(place.folder, place.name);
  } catch (error) {
    if (errnoOf(error) !== "ENOTDIR") throw rootFault(error, path);
    // A link that appeared only now is refused as any other: it is not entered.
    const stats = place.name === undefined ? undefined : statOrFault(place.folder, place.name, path);
    throw stats?.isSymbolicLink() === true ? symlinkRefused(place.canonicalPath) : notAFolder(path);
  }
}
