import type { Digest } from "../../shared/content/digest.ts";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Log } from "../../shared/log/log.ts";
import { sortByUtf8 } from "../../shared/names/byte-order.ts";
import {
  appendPath,
  baseName,
  parentPath,
  rootPath,
  type WorkspacePath,
} from "../../shared/names/workspace-path.ts";
import { notAFolder } from "../../shared/root/refusals.ts";
import { hashFile, hashTree, type HashTally, neverStill } from "./hash-files.ts";
import {
  createFolder,
  digestOfFolder,
  eachFolder,
  findFolder,
  identify,
  type KnownFile,
  type KnownFolder,
  type KnownLink,
  outdate,
  reachFolder,
} from "./known-tree.ts";
import { type KeptDigests, readManifestFile, writeManifestFile } from "./manifest-file.ts";
import type { Workspace } from "./open-workspace.ts";
import { type ScanOptions, scanTree, type TreeChange } from "./scan-tree.ts";

/** A folder in a manifest. */
export interface FolderState {
  readonly kind: "folder";
  readonly mode: number;
  readonly mtimeNs: bigint;
  /** Of all that is below. */
  readonly digest: Digest;
}

/** An entry of a manifest, or what could not be read. */
export interface ManifestItem {
  /** Relative to the manifest's folder. */
  readonly path: WorkspacePath;
  readonly state: KnownFile | KnownLink | FolderState | Fault;
}

/** A folder with all that is below it, at one moment. */
export interface Manifest {
  readonly canonicalPath: WorkspacePath;
  readonly digest: Digest;
  /** In order of the paths' UTF-8 bytes. */
  readonly items: readonly ManifestItem[];
  /** What had to be read for it. */
  readonly hashed: Readonly<HashTally>;
}

/** How a manifest is asked for. */
export interface ManifestQuery {
  readonly path: WorkspacePath;
  /** No items when the folder still has this digest. */
  readonly known: string;
  /** Only the folder's own entries. */
  readonly isShallow: boolean;
  readonly signal: AbortSignal;
}

/** Who is told of what scans find. */
export interface TreeObserver {
  /** Before a folder is listed. */
  readonly onFolder: (folder: KnownFolder, path: WorkspacePath) => Promise<void>;
  /** All that one scan found; nobody looks meanwhile. */
  readonly onChanges: (changes: readonly TreeChange[]) => Promise<void>;
}

/** What a workspace's manifest stands on. */
export interface ManifestOptions {
  readonly workspace: Workspace;
  /** Where it is kept. */
  readonly file: string;
  readonly clock: Clock;
  readonly log: Log;
}

/** How often files that change while they are read are tried again. */
const tries = 3;
/** How long what was read may be unwritten, in milliseconds. */
const saveAfterMs = 2_000;

/**
 * What one workspace holds, known well enough to be compared: every answer is what the disk says now, and only what
 * changed since the last one is read. Kept across restarts. Whoever made it disposes it.
 */
export class WorkspaceManifest implements AsyncDisposable {
  readonly #options: ManifestOptions;
  readonly #signal: AbortSignal;
  readonly #ending = new AbortController();
  readonly #top: KnownFolder = createFolder(undefined, "");
  #kept: KeptDigests | undefined;
  #turn: Promise<unknown> = Promise.resolve();
  #saving: Promise<void> | undefined;
  #observer: TreeObserver | undefined;
  #scannedAtMs = 0;
  /** When somebody last asked, in milliseconds since 1970. */
  usedAtMs: number;

  constructor(options: ManifestOptions) {
    this.#options = options;
    this.#signal = AbortSignal.any([this.#ending.signal, options.workspace.signal]);
    this.usedAtMs = options.clock.now();
  }

  /** The folder at `path`; `NOT_A_DIRECTORY` for anything else, `LIMIT_REACHED` for a tree that is too large. */
  async read(query: ManifestQuery): Promise<Manifest> {
    const { root } = this.#options.workspace;
    const { kind, canonicalPath } = await root.stat(query.path);
    if (kind !== "folder") throw notAFolder(query.path);
    const signal = AbortSignal.any([query.signal, this.#signal]);
    const hashed: HashTally = { files: 0, bytes: 0 };
    // One at a time: who comes second finds the work done.
    const manifest = await this.#inTurn(async () => {
      this.usedAtMs = this.#options.clock.now();
      const folder = await this.#look(canonicalPath, signal, hashed);
      const digest = digestOfFolder(folder);
      const items = digest === query.known ? [] : [...eachItem(folder, query.isShallow)];
      return { canonicalPath, digest, items, hashed };
    });
    if (hashed.files > 0) this.#saveSoon();
    return manifest;
  }

  /** What stands at `path` with all that is below, each with its path in the workspace; faults as `stat`. */
  async standing(path: WorkspacePath, signal: AbortSignal): Promise<readonly ManifestItem[]> {
    const { workspace, clock } = this.#options;
    const entry = await workspace.root.stat(path);
    const { kind, mode, mtimeNs, ctimeNs, sizeBytes, canonicalPath } = entry;
    if (kind === "folder") {
      const { digest, items } = await this.read({ path, known: "", isShallow: false, signal });
      const below = items.map(({ path: at, state }) => ({ path: appendPath(canonicalPath, at), state }));
      return [{ path: canonicalPath, state: { kind, mode, mtimeNs, digest } }, ...below];
    }
    const known: KnownFile = { kind: "file", sizeBytes, mode, mtimeNs, ctimeNs, id: identify(entry) };
    if (kind === "file") await hashFile(known, canonicalPath, { root: workspace.root, clock, signal });
    return kind === "file" ? [{ path: canonicalPath, state: known }] : [];
  }

  /** Paths that are known at and below `path`, what is below first. */
  async pathsBelow(path: WorkspacePath, signal: AbortSignal): Promise<readonly WorkspacePath[]> {
    const paths: WorkspacePath[] = [];
    await this.change(signal, async () => {
      const parent = path === "" ? undefined : findFolder(this.#top, parentPath(path) ?? rootPath);
      const known = parent ? parent.entries.get(baseName(path)) : this.#top;
      if (!known) return;
      if (known.kind === "folder")
        for (const { path: at } of eachItem(known, false)) paths.push(appendPath(path, at));
      paths.reverse();
      paths.push(path);
    });
    return paths;
  }

  /** Everything that is known; to be looked at in `change` only. */
  get top(): KnownFolder {
    return this.#top;
  }

  /** What was last looked at as a whole, in milliseconds since 1970; 0 for never. */
  get scannedAtMs(): number {
    return this.#scannedAtMs;
  }

  /** Whom to tell of every difference that is found, whoever looked; one at a time. */
  observe(observer: TreeObserver | undefined): void {
    this.#observer = observer;
  }

  /** Looks at everything; what is found is told to the observer. */
  async scanAll(signal: AbortSignal): Promise<void> {
    await this.change(signal, async (options) => {
      await scanTree(this.#top, rootPath, options);
      this.#scannedAtMs = this.#options.clock.now();
      // All of it was handed out.
      this.#kept = new Map();
    });
  }

  /** Looks, with nobody else looking or reading meanwhile; what is found is told to the observer. */
  async change(signal: AbortSignal, look: (options: ScanOptions) => Promise<void>): Promise<void> {
    await this.#inTurn(async () => {
      this.usedAtMs = this.#options.clock.now();
      await this.#load(signal);
      await this.#scan(signal, look);
    });
  }

  async #scan(signal: AbortSignal, look: (options: ScanOptions) => Promise<void>): Promise<void> {
    const changes: TreeChange[] = [];
    const observer = this.#observer;
    try {
      await look({
        workspace: this.#options.workspace,
        signal,
        recall: (at, name) => this.#kept?.get(at)?.get(name),
        ...(observer ? { onChange: (change) => void changes.push(change), onFolder: observer.onFolder } : {}),
      });
    } finally {
      // What was found is known from now on, and would not be found again.
      await observer?.onChanges(changes);
    }
  }

  async #look(path: WorkspacePath, signal: AbortSignal, tally: HashTally): Promise<KnownFolder> {
    await this.#load(signal);
    const { workspace, clock } = this.#options;
    const folder = reachFolder(this.#top, path);
    for (let round = 0; round < tries; round += 1) {
      await this.#scan(signal, (options) => scanTree(folder, path, options));
      if (folder === this.#top) this.#scannedAtMs = clock.now();
      const isStale = await hashTree(folder, path, { root: workspace.root, clock, signal, tally });
      if (folder === this.#top) this.#kept = new Map();
      if (!isStale) return folder;
    }
    giveUp(folder, path);
    return folder;
  }

  /** What cannot be read as it was written is made again, from the files. */
  async #load(signal: AbortSignal): Promise<void> {
    if (this.#kept) return;
    try {
      this.#kept = (await readManifestFile(this.#options.file, signal)) ?? new Map();
    } catch (error) {
      signal.throwIfAborted();
      const { code, message } = faultFromError(error);
      const { name } = this.#options.workspace.settings;
      this.#options.log.warn("a kept manifest is made again", { workspace: name, code, reason: message });
      this.#kept = new Map();
    }
  }

  #saveSoon(): void {
    this.#saving ??= this.#options.clock
      .sleep(saveAfterMs, { signal: this.#signal })
      .catch(() => undefined)
      .then(() => this.#save())
      .finally(() => void (this.#saving = undefined));
  }

  async #save(): Promise<void> {
    try {
      await this.#inTurn(() =>
        writeManifestFile(
          this.#options.file,
          { top: this.#top, kept: this.#kept ?? new Map() },
          new AbortController().signal,
        ),
      );
    } catch (error) {
      // Without it the next start reads more: no reason to fail anything.
      const { code, message } = faultFromError(error);
      this.#options.log.warn("a manifest could not be kept", { code, reason: message });
    }
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const mine = this.#turn.then(work);
    this.#turn = mine.catch(() => undefined);
    return mine;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending.abort(new Fault("CANCELLED", "the manifest was closed"));
    await this.#saving;
    await this.#turn;
  }
}

/** What never stands still is a problem, and not missing. */
function giveUp(top: KnownFolder, path: WorkspacePath): void {
  for (const [folder, at] of eachFolder(top, path)) {
    for (const [name, known] of folder.entries) {
      if (known.kind !== "file" || known.digest !== undefined || known.fault) continue;
      known.fault = neverStill(appendPath(at, name as WorkspacePath));
      outdate(folder);
    }
  }
}

interface Step {
  readonly key: string;
  readonly item?: ManifestItem;
  readonly below?: KnownFolder;
}

/** An entry is met at its name, what is in a folder at its name with a slash: that is the order of whole paths. */
function* eachItem(folder: KnownFolder, isShallow: boolean, path = rootPath): Generator<ManifestItem> {
  const steps: Step[] = [];
  for (const [name, known] of folder.entries) {
    const below = appendPath(path, name as WorkspacePath);
    if (known.kind === "problem") steps.push({ key: name, item: { path: below, state: known.fault } });
    else if (known.kind === "link") steps.push({ key: name, item: { path: below, state: known } });
    else if (known.kind === "file") {
      const state = known.digest === undefined ? (known.fault ?? neverStill(below)) : known;
      steps.push({ key: name, item: { path: below, state } });
    } else if (known.fault) steps.push({ key: name, item: { path: below, state: known.fault } });
    else {
      const { mode, mtimeNs } = known;
      const state: FolderState = { kind: "folder", mode, mtimeNs, digest: digestOfFolder(known) };
      steps.push({ key: name, item: { path: below, state } });
      if (!isShallow) steps.push({ key: `${name}/`, below: known });
    }
  }
  for (const { key, item, below } of sortByUtf8(steps, (step) => step.key)) {
    if (item) yield item;
    if (below) yield* eachItem(below, isShallow, appendPath(path, key.slice(0, -1) as WorkspacePath));
  }
}
