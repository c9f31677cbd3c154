import { Fault, isFault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { appendPath, baseName, parentPath, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { KernelWatches } from "./kernel-watches.ts";
import { eachFolder, findFolder, type KnownFolder, pathIn } from "./known-tree.ts";
import type { Workspace } from "./open-workspace.ts";

/** What the watches of a workspace's folders stand on. */
export interface FolderWatchesOptions {
  readonly workspace: Workspace;
  readonly kernel: KernelWatches;
  readonly manifest: { readonly top: KnownFolder };
  readonly clock: Clock;
  readonly scanEveryMs: number;
}

/** Whom they tell. */
export interface FolderWatchesListener {
  /** There is something to look at. */
  onHint(): void;
  /** What is watched may be something else by now: all of it is to be watched anew. */
  onDoubt(): void;
}

/** What was hinted at. */
export interface Hints {
  readonly folders: ReadonlyMap<KnownFolder, ReadonlySet<string>>;
  /** The place of a path among the hints; the last one counts. */
  readonly order: ReadonlyMap<WorkspacePath, number>;
  readonly count: number;
}

/** A scan takes at most this share of the time. */
const busyShare = 1 / 20;
/** Hints are told apart by their order up to so many. */
const maxOrdered = 50_000;

/** The kernel's watches of one workspace's folders, each of one folder's own entries. */
export class FolderWatches implements Disposable {
  readonly #options: FolderWatchesOptions;
  readonly #listener: FolderWatchesListener;
  #watches = new Map<KnownFolder, Disposable>();
  #hints = new Map<KnownFolder, Set<string>>();
  #order = new Map<WorkspacePath, number>();
  #count = 0;
  #fault: Fault | undefined;
  #isRefused = false;
  #tookMs = 0;
  #scannedAtMs = 0;

  constructor(options: FolderWatchesOptions, listener: FolderWatchesListener) {
    this.#options = options;
    this.#listener = listener;
  }

  /** Why not every folder is watched; undefined when all are. */
  get fault(): Fault | undefined {
    const { folders, covered } = this.coverage;
    if (folders === covered) return undefined;
    return (this.#fault ?? notCovered()).with({ details: { covered, folders } });
  }

  /** Folders there are, and those of them that are watched. */
  get coverage(): { readonly folders: number; readonly covered: number } {
    let folders = 0;
    let covered = 0;
    for (const [folder] of eachFolder(this.#options.manifest.top)) {
      if (folder.fault) continue;
      folders += 1;
      if (this.#watches.has(folder)) covered += 1;
    }
    return { folders, covered };
  }

  /** Whether the kernel refused to watch another folder. */
  get isRefused(): boolean {
    return this.#isRefused;
  }

  /** Whether the kernel watches a folder. */
  isWatched(folder: KnownFolder): boolean {
    return this.#watches.has(folder);
  }

  get hasHints(): boolean {
    return this.#hints.size > 0;
  }

  /** Whether, with some folders unwatched, it is time to look at all of them. */
  isScanDue(): boolean {
    return this.#options.clock.now() - this.#scannedAtMs >= this.#tookMs / busyShare;
  }

  /** A scan has ended, which took so long, in milliseconds. */
  tookMs(ms: number): void {
    this.#tookMs = ms;
    this.#scannedAtMs = this.#options.clock.now();
  }

  /** Watches a folder, unless it is watched; the kernel's refusal is kept, and nothing more asked of it until `retry`. */
  async ensure(folder: KnownFolder, path: WorkspacePath): Promise<void> {
    if (this.#watches.has(folder) || this.#isRefused) return;
    const { workspace, kernel } = this.#options;
    try {
      await using opened = await workspace.root.openFolder(path);
      const watch = kernel.watch(opened.procPath, {
        onHint: (name, isRename) => this.#take(folder, name, isRename),
        onSelf: () => this.#doubt(folder),
        onEnd: () => this.#doubt(folder),
      });
      this.#watches.set(folder, watch);
    } catch (error) {
      if (!isFault(error)) throw error;
      // A folder that is gone or closed is for the scan to tell.
      if (error.code !== "LIMIT_REACHED" && error.details["reason"] !== "watch_failed") return;
      this.#fault = error;
      this.#isRefused = true;
    }
  }

  /** The kernel may be asked again. */
  retry(): void {
    this.#isRefused = false;
    this.#fault = undefined;
  }

  /** What is below this folder is watched no more. */
  drop(top: KnownFolder): void {
    for (const [folder] of eachFolder(top)) {
      this.#watches.get(folder)?.[Symbol.dispose]();
      this.#watches.delete(folder);
      this.#hints.delete(folder);
    }
  }

  /** Nothing is watched any more. */
  forget(): void {
    const watches = this.#watches;
    this.#watches = new Map();
    for (const watch of watches.values()) watch[Symbol.dispose]();
    this.#hints = new Map();
  }

  /** All hints since the last time. */
  takeHints(): Hints {
    const hints = { folders: this.#hints, order: this.#order, count: this.#count };
    this.#hints = new Map();
    this.#order = new Map();
    this.#count = 0;
    return hints;
  }

  /** As if the kernel had hinted at `path`. */
  hintAt(path: WorkspacePath): void {
    const folder = findFolder(this.#options.manifest.top, parentPath(path) ?? path);
    if (folder) this.#take(folder, baseName(path), false);
  }

  #take(folder: KnownFolder, name: string, isRename: boolean): void {
    const names = this.#hints.get(folder) ?? new Set();
    names.add(name);
    this.#hints.set(folder, names);
    this.#count += 1;
    const path = this.#order.size < maxOrdered ? pathIn(this.#options.manifest.top, folder) : undefined;
    if (path !== undefined) this.#order.set(appendPath(path, name as WorkspacePath), this.#count);
    // A folder that came back under its name may have the inode of the one before, and no watch of the kernel's.
    const below = folder.entries.get(name);
    if (isRename && below?.kind === "folder") this.#rewatch(below);
    this.#listener.onHint();
  }

  /** The watch of a folder that may be another by now is made anew when it is next looked at. */
  #rewatch(top: KnownFolder): void {
    for (const [folder] of eachFolder(top)) {
      this.#watches.get(folder)?.[Symbol.dispose]();
      this.#watches.delete(folder);
      this.#hints.set(folder, this.#hints.get(folder) ?? new Set());
    }
  }

  #doubt(folder: KnownFolder): void {
    if (folder.parent === undefined) this.#listener.onDoubt();
    else this.#take(folder.parent, folder.name, true);
  }

  [Symbol.dispose](): void {
    this.forget();
  }
}

function notCovered(): Fault {
  return new Fault("IO_ERROR", "some folders are not watched", { details: { reason: "watch_failed" } });
}
