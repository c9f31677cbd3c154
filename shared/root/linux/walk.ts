import { closeSync, fstatSync } from "node:fs";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import { Fault, isFault } from "../../fault/fault.ts";
import { compareByUtf8, sortByUtf8 } from "../../names/byte-order.ts";
import { findTwins, type Twinship } from "../../names/folded-name.ts";
import { appendPath, type WorkspacePath } from "../../names/workspace-path.ts";
import {
  hardlinkRefused,
  notFound,
  pathChanged,
  rootFault,
  tooManyEntries,
  treeTooDeep,
  unsupportedType,
} from "../refusals.ts";
import type { Entry, HideRule } from "../root-handle.ts";
import type { WalkItem, WalkOptions } from "../walk-options.ts";
import { announce, foundAt, isSameContent, isSameThing, type RootContext, toEntry } from "./context.ts";
import {
  type Descriptor,
  type NamedEntry,
  openFolder,
  showName,
  statEntry,
  tryOpenFile,
} from "./descriptor.ts";
import { judgeLink, type LinkPlace } from "./links.ts";
import { notUtf8, pathTooLong, readNames } from "./list.ts";
import { readFully } from "./open-file.ts";
import { createPause } from "./pause.ts";
import { forCanonical, openFolderAt } from "./place.ts";

/** Largest content that a walk reads along. */
const maxInlineBytes = 512 * 1024;
/** Content of one batch: one buffer, used again for each. */
const batchBytes = 2 * maxInlineBytes;
const maxBatchItems = 4096;

/** `RootHandle.walk`. */
export async function* walk(
  context: RootContext,
  path: WorkspacePath,
  options: WalkOptions,
): AsyncGenerator<readonly WalkItem[], void> {
  options.signal?.throwIfAborted();
  using tree = new TreeWalk(context, path, options);
  const pause = createPause(
    options.signal ? AbortSignal.any([options.signal, context.signal]) : context.signal,
  );
  for (;;) {
    const batch = tree.next(() => pause.isDue());
    if (batch.length > 0) yield batch;
    if (tree.isDone) return;
    await pause.take();
    tree.requireInPlace();
  }
}

/** One folder on the way down. */
interface Level {
  readonly folder: Descriptor;
  /** As asked for: the walk's path and what lies below it. */
  readonly path: WorkspacePath;
  readonly canonicalPath: WorkspacePath;
  readonly steps: readonly Step[];
  readonly twins: ReadonlyMap<string, Twinship>;
  at: number;
}

/** An entry is met at its name, and a folder entered at its name with a slash: that is the order of whole paths. */
interface Step {
  readonly key: string;
  readonly named: NamedEntry;
  readonly isEntering: boolean;
}

const noTwins: ReadonlyMap<string, Twinship> = new Map();

class TreeWalk implements Disposable {
  readonly #context: RootContext;
  readonly #options: WalkOptions;
  readonly #levels: Level[] = [];
  readonly #top: Descriptor;
  readonly #canonicalTop: WorkspacePath;
  readonly #inlineUpTo: number;
  #buffer: Buffer = Buffer.alloc(0);
  #filled = 0;
  #count = 0;
  #items: WalkItem[] = [];

  constructor(context: RootContext, path: WorkspacePath, options: WalkOptions) {
    this.#context = context;
    this.#options = options;
    this.#inlineUpTo = Math.min(options.contentUpToBytes ?? 0, maxInlineBytes);
    const opened = openFolderAt(context.start, path);
    this.#top = opened.folder;
    this.#canonicalTop = opened.canonicalPath;
    try {
      announce(context, "walk", path);
      options.check?.(opened.canonicalPath, foundAt(opened.folder.stat()));
      this.#push(opened.folder, path, opened.canonicalPath);
    } catch (error) {
      opened[Symbol.dispose]();
      throw error;
    }
  }

  get isDone(): boolean {
    return this.#levels.length === 0;
  }

  /** Walks on until the turn is over or the batch is full. */
  next(isDue: () => boolean): readonly WalkItem[] {
    this.#items = [];
    this.#filled = 0;
    if (this.#inlineUpTo > 0 && this.#buffer.length === 0) this.#buffer = Buffer.allocUnsafe(batchBytes);
    while (!isDue() && this.#items.length < maxBatchItems && this.#filled + this.#inlineUpTo <= batchBytes) {
      const level = this.#levels.at(-1);
      if (!level) break;
      const step = level.steps[level.at];
      level.at += 1;
      if (!step) this.#pop();
      else if (step.isEntering) this.#enter(level, step.named);
      else this.#meet(level, step.named);
    }
    return this.#items;
  }

  /** After a pause: the folder in hand must still be where it was, else its rest is left out and said so. */
  requireInPlace(): void {
    const level = this.#levels.at(-1);
    if (!level || this.#isInPlace(level)) return;
    this.#fail(level.path, pathChanged(level.path));
    level.at = level.steps.length;
  }

  #isInPlace(level: Level): boolean {
    try {
      using now = openFolderAt(forCanonical(this.#context.start), level.canonicalPath);
      return isSameThing(now.folder.stat(), level.folder.stat());
    } catch (error) {
      if (error instanceof Fault) return false;
      throw error;
    }
  }

  #enter(level: Level, { name }: NamedEntry): void {
    if (typeof name !== "string") return;
    const path = appendPath(level.path, name as WorkspacePath);
    let folder: Descriptor | undefined;
    try {
      folder = openFolder(level.folder, name);
      this.#push(folder, path, appendPath(level.canonicalPath, name as WorkspacePath));
    } catch (error) {
      if (folder !== undefined) folder[Symbol.dispose]();
      // A tree that is taken along is refused whole; a listing shows the rest.
      if (isFault(error, "LIMIT_REACHED") && this.#options.asListed !== true) throw error;
      this.#fail(path, error);
    }
  }

  #push(folder: Descriptor, path: WorkspacePath, canonicalPath: WorkspacePath): void {
    const { hide, leave, tellsTwins } = this.#options;
    const isOut = (rule: HideRule | undefined, { name, kind }: NamedEntry): boolean =>
      rule?.(appendPath(path, showName(name) as WorkspacePath), kind) === true;
    const shown = readNames(folder, path).filter((named) => !isOut(hide, named));
    const twins = tellsTwins === true ? findTwins(shown.map(({ name }) => showName(name))) : noTwins;
    const names = leave ? shown.filter((named) => !isOut(leave, named)) : shown;
    const limit = this.#options.maxDepth ?? 64;
    // The deepest folder there may be is one without entries.
    if (names.length > 0 && this.#levels.length >= limit)
      throw treeTooDeep(limit, this.#levels.length + 1, path);
    this.#levels.push({ folder, path, canonicalPath, steps: this.#plan(names, path), twins, at: 0 });
  }

  #plan(names: readonly NamedEntry[], path: WorkspacePath): readonly Step[] {
    const steps: Step[] = [];
    for (const named of names) {
      const key = showName(named.name);
      const below = appendPath(path, key as WorkspacePath);
      if (this.#isWanted(below)) steps.push({ key, named, isEntering: false });
      if (named.kind === "folder" && this.#isWantedBelow(below))
        steps.push({ key: `${key}/`, named, isEntering: true });
    }
    return sortByUtf8(steps, (step) => step.key);
  }

  #isWanted(path: WorkspacePath): boolean {
    const { after } = this.#options;
    return after === undefined || compareByUtf8(path, after) > 0;
  }

  /** A folder before the mark is still entered when the mark lies in it, or sorts before what it holds. */
  #isWantedBelow(path: WorkspacePath): boolean {
    const { after } = this.#options;
    return after === undefined || after.startsWith(`${path}/`) || compareByUtf8(`${path}/`, after) > 0;
  }

  #pop(): void {
    const level = this.#levels.pop();
    if (level && level.folder !== this.#top) level.folder[Symbol.dispose]();
  }

  #meet(level: Level, named: NamedEntry): void {
    this.#requireRoom();
    const { name } = named;
    if (typeof name !== "string") {
      const problem = notUtf8(level.path, named);
      return this.#fail(problem.path, problem.fault);
    }
    const path = appendPath(level.path, name as WorkspacePath);
    const overlong = pathTooLong(path);
    if (overlong) throw overlong;
    try {
      const wanted = this.#inlineUpTo > 0 && named.kind === "file";
      const item = wanted ? this.#readFile(level, name, path) : this.#look(level, name, path);
      const twinship = level.twins.get(name);
      if (item) this.#items.push(twinship && item.kind === "entry" ? { ...item, twinship } : item);
      else this.#lose(path);
    } catch (error) {
      if (errnoOf(error) === "ENOENT") this.#lose(path);
      else this.#fail(path, error);
    }
  }

  /** Gone since the folder was read. */
  #lose(path: WorkspacePath): void {
    if (this.#options.tellsGone === true) this.#fail(path, notFound(path));
  }

  #requireRoom(): void {
    this.#count += 1;
    const limit = this.#options.maxEntries ?? 1_000_000;
    if (this.#count > limit) throw tooManyEntries(limit, this.#count);
  }

  #look(level: Level, name: string, path: WorkspacePath): WalkItem | undefined {
    const stats = statEntry(level.folder, name);
    if (!stats) return undefined;
    const canonicalPath = appendPath(level.canonicalPath, name as WorkspacePath);
    const entry = toEntry(path, stats, { canonicalPath });
    if (entry.kind !== "link") return this.#judge(entry);
    const verdict = judgeLink({ ...this.#inside(canonicalPath), folder: level.folder, name, path });
    if ("target" in verdict) return { kind: "entry", entry: { ...entry, linkTarget: verdict.target } };
    if (this.#options.asListed === true) return { kind: "entry", entry };
    return { kind: "problem", problem: { path, fault: verdict.fault } };
  }

  /** What a link must stay in: the folder that is walked, or the whole root where nothing is taken along. */
  #inside(canonicalPath: WorkspacePath): Pick<LinkPlace, "top" | "below" | "trusted"> {
    const { top: rootTop, trusted } = this.#context.start;
    if (this.#options.asListed === true) return { top: rootTop, trusted, below: canonicalPath };
    const top = this.#canonicalTop;
    const below = top === "" ? canonicalPath : canonicalPath.slice(top.length + 1);
    return { top: this.#top, below: below as WorkspacePath };
  }

  #judge(entry: Entry): WalkItem {
    if (this.#options.asListed === true) return { kind: "entry", entry };
    const fault = this.#refusal(entry);
    return fault ? { kind: "problem", problem: { path: entry.path, fault } } : { kind: "entry", entry };
  }

  #refusal(entry: Entry): Fault | undefined {
    if (entry.kind === "other") return unsupportedType(entry.path);
    if (entry.kind !== "file" || entry.links <= 1 || this.#context.allowHardLinks) return undefined;
    return hardlinkRefused(entry.path, entry.links);
  }

  /** A small file with its content: the file that was judged is the one that is read. */
  #readFile(level: Level, name: string, path: WorkspacePath): WalkItem | undefined {
    const fd = tryOpenFile(level.folder, name);
    // A link by now.
    if (fd === undefined) return this.#look(level, name, path);
    try {
      const stats = fstatSync(fd, { bigint: true });
      const canonicalPath = appendPath(level.canonicalPath, name as WorkspacePath);
      const entry = toEntry(path, stats, { canonicalPath });
      // It was a file a moment ago; a folder by now is left to the next walk.
      if (entry.kind === "folder") return undefined;
      const item = this.#judge(entry);
      if (item.kind === "problem" || entry.sizeBytes > this.#inlineUpTo) return item;
      const content = this.#buffer.subarray(this.#filled, this.#filled + entry.sizeBytes);
      // Changed while it was read: it is read on its own, where that is looked after.
      if (readFully(fd, content, 0) !== entry.sizeBytes) return item;
      if (!isSameContent(stats, fstatSync(fd, { bigint: true }))) return item;
      this.#filled += entry.sizeBytes;
      return { kind: "entry", entry, content };
    } finally {
      closeSync(fd);
    }
  }

  #fail(path: string, error: unknown): void {
    const fault = rootFault(error, path);
    if (!(fault instanceof Fault)) throw fault;
    this.#items.push({ kind: "problem", problem: { path, fault } });
  }

  [Symbol.dispose](): void {
    while (this.#levels.length > 0) this.#pop();
    this.#top[Symbol.dispose]();
  }
}
