import { type BigIntStats, rmdirSync, unlinkSync } from "node:fs";
import { Fault } from "../../fault/fault.ts";
import { appendPath, type WorkspacePath } from "../../names/workspace-path.ts";
import { pathChanged, rootFault, rootRefused } from "../refusals.ts";
import type { RemoveOptions } from "../remove-options.ts";
import { isKeptName, isStagedName } from "../staged-name.ts";
import { announce, foundAt, isSameContent, isSameThing, openPlace, type RootContext } from "./context.ts";
import {
  at,
  type Descriptor,
  type EntryName,
  kindOf,
  type NamedEntry,
  openFolder,
  readFolder,
  readLink,
  showName,
} from "./descriptor.ts";
import { createPause } from "./pause.ts";
import { findPlace, forCanonical, forChange, openFolderAt, type Place } from "./place.ts";
import { conflict, digestTarget } from "./target.ts";

/** `RootHandle.remove`. A link is removed itself; what it points to is never touched. */
export async function remove(
  context: RootContext,
  path: WorkspacePath,
  options: RemoveOptions,
): Promise<number> {
  if (path === "") throw rootRefused("removed");
  const removal = new Removal(context, path, options);
  return context.locks.hold(path, () => removal.run());
}

/** One folder on the way down, with what is left to remove in it. */
interface Level {
  readonly parent: Descriptor;
  readonly name: EntryName;
  readonly folder: Descriptor;
  readonly path: WorkspacePath;
  readonly canonicalPath: WorkspacePath;
  readonly pending: NamedEntry[];
}

class Removal {
  readonly #context: RootContext;
  readonly #path: WorkspacePath;
  readonly #options: RemoveOptions;
  readonly #levels: Level[] = [];
  #removed = 0;

  constructor(context: RootContext, path: WorkspacePath, options: RemoveOptions) {
    this.#context = context;
    this.#path = path;
    this.#options = options;
  }

  async run(): Promise<number> {
    try {
      using place = findPlace(forChange(this.#context.start), this.#path, "keep");
      const matched = await this.#requireMatch(place);
      this.#begin(place, matched);
      const { signal } = this.#context;
      const pause = createPause(
        this.#options.signal ? AbortSignal.any([this.#options.signal, signal]) : signal,
      );
      while (this.#levels.length > 0) {
        this.#step();
        if (!pause.isDue()) continue;
        await pause.take();
        this.#requireInPlace();
      }
      return this.#removed;
    } catch (error) {
      throw rootFault(error, this.#path);
    } finally {
      for (const level of this.#levels) level.folder[Symbol.dispose]();
    }
  }

  async #requireMatch(place: Place): Promise<BigIntStats | undefined> {
    const { ifMatch, signal } = this.#options;
    if (ifMatch === undefined) return undefined;
    const target = { folder: place.folder, name: requireName(place), path: this.#path };
    const digested = await digestTarget(this.#context, target, signal);
    if (digested?.digest !== ifMatch) throw conflict(this.#path, ifMatch, digested?.digest);
    return digested.stats;
  }

  /** Removes what is no folder, or opens the folder as the first level. */
  #begin(first: Place, matched: BigIntStats | undefined): void {
    // Walked again: the digest took time, and a parent may lead elsewhere by now.
    using place = findPlace(forChange(this.#context.start), this.#path, "keep");
    if (!isSameThing(place.folder.stat(), first.folder.stat())) throw pathChanged(this.#path);
    announce(this.#context, "remove", this.#path);
    using entry = openPlace(place, this.#path);
    const stats = entry.stat();
    if (matched && !isSameContent(matched, stats)) throw pathChanged(this.#path);
    this.#options.check?.(place.canonicalPath, foundAt(stats));
    const kind = kindOf(stats);
    const named = { name: requireName(place), kind, path: this.#path };
    this.#requireKind(place.folder, named);
    if (kind !== "folder") return this.#removeEntry(place.folder, named);
    if (this.#options.recursive !== true) {
      removeKept(place.folder, named.name);
      return this.#removeEntry(place.folder, named);
    }
    this.#enter(first.folder, { name: named.name, path: this.#path, canonicalPath: place.canonicalPath });
  }

  #requireKind(folder: Descriptor, { name, kind }: NamedEntry): void {
    const { ifKind = kind, ifLinkTarget } = this.#options;
    const isOther = ifLinkTarget !== undefined && kind === "link" && readLink(folder, name) !== ifLinkTarget;
    if (kind === ifKind && !isOther) return;
    throw new Fault("CONFLICT", `${this.#path} is another than it was`, {
      details: { path: this.#path, expected: ifKind, actual: kind },
    });
  }

  #step(): void {
    const level = this.#levels.at(-1);
    if (!level) return;
    const next = level.pending.pop();
    if (!next) {
      this.#levels.pop();
      level.folder[Symbol.dispose]();
      return this.#removeEntry(level.parent, { name: level.name, kind: "folder", path: level.path });
    }
    const { name, kind } = next;
    const shown = showName(name) as WorkspacePath;
    const path = appendPath(level.path, shown);
    if (kind !== "folder") return this.#removeEntry(level.folder, { name, kind, path });
    this.#enter(level.folder, { name, path, canonicalPath: appendPath(level.canonicalPath, shown) });
  }

  #enter(parent: Descriptor, entered: Omit<Level, "parent" | "folder" | "pending">): void {
    const folder = openFolder(parent, entered.name);
    this.#levels.push({ ...entered, parent, folder, pending: readFolder(folder) });
  }

  #removeEntry(
    folder: Descriptor,
    { name, kind, path }: NamedEntry & { readonly path: WorkspacePath },
  ): void {
    if (typeof name === "string" && isKeptName(name)) return unlinkSync(at(folder, name));
    if (typeof name === "string" && isStagedName(name)) throw busy(path);
    this.#options.mayRemove?.(path, kind);
    if (kind === "folder") rmdirSync(at(folder, name));
    else unlinkSync(at(folder, name));
    this.#removed += 1;
  }

  /** After a pause: a folder that was moved away meanwhile is not emptied where it is now. */
  #requireInPlace(): void {
    for (const level of this.#levels) {
      using now = openFolderAt(forCanonical(this.#context.start), level.canonicalPath);
      if (!isSameThing(now.folder.stat(), level.folder.stat())) throw pathChanged(level.path);
    }
  }
}

/** A folder that holds nothing but parts that are kept is an empty one, as listings say. */
function removeKept(parent: Descriptor, name: string): void {
  using folder = openFolder(parent, name);
  const entries = readFolder(folder).map((entry) => entry.name);
  const isEmpty = entries.every((entry) => typeof entry === "string" && isKeptName(entry));
  if (isEmpty) for (const entry of entries) unlinkSync(at(folder, entry));
}

function requireName(place: Place): string {
  if (place.name === undefined) throw rootRefused("removed");
  return place.name;
}

function busy(path: WorkspacePath): Fault {
  return new Fault("CONFLICT", `a file is just being written in ${path}`, {
    details: { path, reason: "busy" },
  });
}
