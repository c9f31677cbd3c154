import { isFault } from "../../shared/fault/fault.ts";
import { rootPath, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import type { FolderTime } from "../../shared/root/folder-time.ts";
import type { Look, LookOptions } from "../../shared/root/look.ts";
import type { FoundPart } from "../../shared/root/part.ts";
import { symlinkRefused } from "../../shared/root/refusals.ts";
import type { RemoveOptions } from "../../shared/root/remove-options.ts";
import type {
  BatchOutcome,
  BatchPublishOptions,
  BatchWriter,
  CanonicalCheck,
  CommitOptions,
  Entry,
  EntryKind,
  HideRule,
  Listing,
  ListOptions,
  MakeFolderOptions,
  MakeLinkOptions,
  MoveOptions,
  OpenFile,
  OpenFileOptions,
  OpenFolder,
  OperationOptions,
  PartOptions,
  RootHandle,
  SmallWriteOptions,
  StagedFile,
  StageOptions,
  WriteReceipt,
} from "../../shared/root/root-handle.ts";
import type { SmallFile } from "../../shared/root/small-file.ts";
import type { WalkItem, WalkOptions } from "../../shared/root/walk-options.ts";
import type { FileOperation, FilePolicy } from "./file-policy.ts";
import { createPinCheck, type Pin, type PinCheck } from "./pin.ts";

/** What of the settings a guarded root needs; asked at each operation, so that a change holds from the next one on. */
export interface Guard {
  readonly policy: FilePolicy;
  readonly maxFileBytes: number | undefined;
  readonly maxEntries: number;
  readonly maxDepth: number;
}

/**
 * A root under the machine's own policy: every operation is judged by the path that was asked for and by the canonical
 * one, and what is denied is in no listing. The caller's own checks come after. Ends with the root it guards.
 */
export function guardRoot(root: RootHandle, guard: () => Guard): GuardedRoot {
  return new PolicedRoot(root, guard);
}

/** A root whose policy can be asked again in the middle of a transfer. */
export interface GuardedRoot extends RootHandle {
  /** Fails with `POLICY_DENIED` when `operation` is not allowed any more. */
  recheck(operation: FileOperation, canonicalPath: WorkspacePath): void;
  /** The same root for what may be done on exactly the things that were allowed; with no pins, this one. */
  pinned(pins: readonly Pin[]): GuardedRoot;
  /** What an operation would act on; refused as the operation itself would be. */
  preflight(path: WorkspacePath, options: PreflightOptions): Promise<Preflight>;
}

/** What `preflight` takes. */
export interface PreflightOptions {
  readonly operation: FileOperation;
  /** The operation is about all that lies below a folder. */
  readonly isTree: boolean;
  /** What lies below is counted, and judged as far as all of it must go along. */
  readonly counts: boolean;
  /** As for `openFile`, and then the file itself may be no link. */
  readonly followFolders?: boolean;
  readonly signal: AbortSignal;
}

/** What an operation would act on. */
export interface Preflight extends Look {
  /** Entries below the folder, for a tree. */
  readonly below: number;
}

class PolicedRoot implements GuardedRoot {
  readonly #root: RootHandle;
  readonly #guard: () => Guard;
  readonly #pins: PinCheck | undefined;

  constructor(root: RootHandle, guard: () => Guard, pins?: PinCheck) {
    this.#root = root;
    this.#guard = guard;
    this.#pins = pins;
  }

  get containment(): RootHandle["containment"] {
    return this.#root.containment;
  }

  get folding(): RootHandle["folding"] {
    return this.#root.folding;
  }

  get identity(): RootHandle["identity"] {
    return this.#root.identity;
  }

  get swept(): Promise<number> {
    return this.#root.swept;
  }

  async stat(path: WorkspacePath, options: OperationOptions = {}): Promise<Entry> {
    return this.#root.stat(path, this.#judged("read", path, options));
  }

  async look(path: WorkspacePath, options: LookOptions): Promise<Look> {
    return this.#root.look(path, this.#judged("read", path, options));
  }

  async list(path: WorkspacePath, options: ListOptions = {}): Promise<Listing> {
    return this.#root.list(path, { ...this.#judged("read", path, options), hide: this.#hide(options.hide) });
  }

  async openFolder(path: WorkspacePath, options: OperationOptions = {}): Promise<OpenFolder> {
    return this.#root.openFolder(path, this.#judged("read", path, options));
  }

  async openFile(path: WorkspacePath, options: OpenFileOptions = {}): Promise<OpenFile> {
    return this.#root.openFile(path, {
      ...this.#judged("read", path, options),
      ...this.#limit(options.maxBytes),
    });
  }

  readSmall(path: WorkspacePath, options: OpenFileOptions & { readonly maxBytes: number }): SmallFile {
    const maxBytes = Math.min(options.maxBytes, this.#guard().maxFileBytes ?? Infinity);
    return this.#root.readSmall(path, { ...this.#judged("read", path, options), maxBytes });
  }

  async stageWrite(path: WorkspacePath, options: StageOptions = {}): Promise<StagedFile> {
    const judged = this.#judged("write", path, options);
    const staged = await this.#root.stageWrite(path, { ...judged, ...this.#limit(options.maxBytes) });
    return new GuardedStage(staged, (commit) => this.#judged("write", path, commit));
  }

  async findPart(path: WorkspacePath, options: PartOptions): Promise<FoundPart | undefined> {
    return this.#root.findPart(path, this.#judged("write", path, options));
  }

  async dropPart(path: WorkspacePath, options: PartOptions): Promise<void> {
    await this.#root.dropPart(path, this.#judged("write", path, options));
  }

  expireParts(beforeMs: number): number {
    return this.#root.expireParts(beforeMs);
  }

  batchWrite(): BatchWriter {
    return new GuardedBatch(this.#root.batchWrite(), {
      add: (path, options) => ({ ...this.#judged("write", path, options), ...this.#limit(options.maxBytes) }),
      publish: (options) => ({
        ...options,
        check: (canonicalPath) => {
          this.recheck("write", canonicalPath);
          options.check?.(canonicalPath);
        },
      }),
    });
  }

  async remove(path: WorkspacePath, options: RemoveOptions = {}): Promise<number> {
    const judged = this.#judged("remove", path, options);
    if (options.recursive === true) await this.#requireBelow("remove", path, options.signal);
    const mayRemove = (entry: WorkspacePath, kind: EntryKind): void => {
      this.#guard().policy.require("remove", entry);
      options.mayRemove?.(entry, kind);
    };
    return this.#root.remove(path, { ...judged, mayRemove });
  }

  async move(from: WorkspacePath, to: WorkspacePath, options: MoveOptions = {}): Promise<Entry> {
    const checkFrom = this.#check("move", from, options.checkFrom);
    const checkTo = this.#check("move", to, options.checkTo);
    await this.#requireBelow("move", from, options.signal);
    return this.#root.move(from, to, { ...options, checkFrom, checkTo });
  }

  async makeFolder(path: WorkspacePath, options: MakeFolderOptions = {}): Promise<Entry> {
    if (options.allowExisting === true) {
      // A folder that stands there already needs no permission to be made.
      const found = await this.#findFolder(path, options);
      if (found) return found;
    }
    return this.#root.makeFolder(path, this.#judged("mkdir", path, options));
  }

  async makeLink(path: WorkspacePath, target: string, options: MakeLinkOptions = {}): Promise<Entry> {
    return this.#root.makeLink(path, target, this.#judged("write", path, options));
  }

  async setFolderTimes(times: readonly FolderTime[], options: OperationOptions = {}): Promise<void> {
    const allowed = times.filter(
      ({ path }) => this.#guard().policy.judge("write", path).decision === "allow",
    );
    await this.#root.setFolderTimes(allowed, {
      check: (canonicalPath) => {
        this.recheck("write", canonicalPath);
        options.check?.(canonicalPath);
      },
    });
  }

  createAsideName(): string {
    return this.#root.createAsideName();
  }

  walk(path: WorkspacePath, options: WalkOptions = {}): AsyncIterable<readonly WalkItem[]> {
    const { maxEntries, maxDepth } = this.#guard();
    return this.#root.walk(path, {
      ...this.#judged("read", path, options),
      hide: this.#hide(options.hide),
      maxEntries: Math.min(options.maxEntries ?? maxEntries, maxEntries),
      maxDepth: Math.min(options.maxDepth ?? maxDepth, maxDepth),
    });
  }

  recheck(operation: FileOperation, canonicalPath: WorkspacePath): void {
    this.#guard().policy.require(operation, canonicalPath);
  }

  pinned(pins: readonly Pin[]): GuardedRoot {
    return pins.length === 0 ? this : new PolicedRoot(this.#root, this.#guard, createPinCheck(pins));
  }

  async preflight(path: WorkspacePath, options: PreflightOptions): Promise<Preflight> {
    const { operation, isTree, counts, followFolders = false, signal } = options;
    const { policy } = this.#guard();
    // Of a tree that is written each entry is judged by itself; only a folder that has to be made is by its own name.
    const judges = !(operation === "write" && isTree);
    if (judges) policy.require(operation, path);
    const keepsLink = operation !== "read" || followFolders;
    const look = await this.#root.look(path, { keepsLink, followFolders });
    if (judges) policy.require(operation, look.canonicalPath);
    else if (!look.entry) policy.require("mkdir", look.canonicalPath);
    if (look.entry?.kind === "link" && (operation === "read" || operation === "write"))
      throw symlinkRefused(path);
    const below = counts && look.entry?.kind === "folder" ? await this.#countBelow(path, options) : 0;
    signal.throwIfAborted();
    return { ...look, below };
  }

  /** What is hidden from readers counts only for who would take it along. */
  async #countBelow(path: WorkspacePath, { operation, signal }: PreflightOptions): Promise<number> {
    if (operation === "remove") return this.#requireBelow(operation, path, signal);
    let count = 0;
    for await (const batch of this.walk(path, { signal })) count += batch.length;
    return count;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#root[Symbol.asyncDispose]();
  }

  /** The options with a check that judges the canonical path too; refuses the requested one at once. */
  #judged<T extends OperationOptions>(operation: FileOperation, path: WorkspacePath, options: T): T {
    return { ...options, check: this.#check(operation, path, options.check) };
  }

  #check(operation: FileOperation, path: WorkspacePath, next: CanonicalCheck | undefined): CanonicalCheck {
    this.#guard().policy.require(operation, path);
    return (canonicalPath, found) => {
      // Asked again also where it is the same: the policy may be another one by now.
      this.#guard().policy.require(operation, canonicalPath);
      this.#pins?.require(operation, path, { canonicalPath, found });
      next?.(canonicalPath, found);
    };
  }

  #hide(more: HideRule | undefined): HideRule {
    return (path, kind) => !this.#guard().policy.isListed(path) || (more?.(path, kind) ?? false);
  }

  #limit(maxBytes: number | undefined): { readonly maxBytes?: number } {
    const limit = Math.min(maxBytes ?? Infinity, this.#guard().maxFileBytes ?? Infinity);
    return limit === Infinity ? {} : { maxBytes: limit };
  }

  /** All that would go along must be allowed to, before anything is changed. */
  async #requireBelow(
    operation: "remove" | "move",
    path: WorkspacePath,
    signal: AbortSignal | undefined,
  ): Promise<number> {
    const { policy, maxEntries, maxDepth } = this.#guard();
    const hasSignal = signal ? { signal } : {};
    if ((await this.#root.stat(path)).kind !== "folder") return 0;
    let count = 0;
    for await (const batch of this.#root.walk(path, { maxEntries, maxDepth, ...hasSignal })) {
      for (const item of batch) {
        if (item.kind === "entry") policy.require(operation, item.entry.path);
        else policy.require(operation, item.problem.path as WorkspacePath);
      }
      count += batch.length;
    }
    return count;
  }

  async #findFolder(path: WorkspacePath, options: MakeFolderOptions): Promise<Entry | undefined> {
    try {
      const check = path === rootPath ? {} : { check: this.#check("write", path, options.check) };
      const entry = await this.#root.stat(path, check);
      return entry.kind === "folder" ? entry : undefined;
    } catch (error) {
      if (isFault(error, "NOT_FOUND")) return undefined;
      throw error;
    }
  }
}

class GuardedStage implements StagedFile {
  readonly #staged: StagedFile;
  readonly #judged: (options: CommitOptions) => CommitOptions;

  constructor(staged: StagedFile, judged: (options: CommitOptions) => CommitOptions) {
    this.#staged = staged;
    this.#judged = judged;
  }

  get canonicalPath(): WorkspacePath {
    return this.#staged.canonicalPath;
  }

  get sizeBytes(): number {
    return this.#staged.sizeBytes;
  }

  async write(chunk: Uint8Array): Promise<void> {
    await this.#staged.write(chunk);
  }

  digest(): ReturnType<StagedFile["digest"]> {
    return this.#staged.digest();
  }

  async commit(options: CommitOptions): Promise<WriteReceipt> {
    return this.#staged.commit(this.#judged(options));
  }

  keep(isKept: boolean): void {
    this.#staged.keep(isKept);
  }

  async discard(): Promise<void> {
    await this.#staged.discard();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#staged.discard();
  }
}

/** Puts the policy's checks into a batch's options. */
interface BatchJudge {
  add(path: WorkspacePath, options: SmallWriteOptions): SmallWriteOptions;
  publish(options: BatchPublishOptions): BatchPublishOptions;
}

class GuardedBatch implements BatchWriter {
  readonly #batch: BatchWriter;
  readonly #judge: BatchJudge;

  constructor(batch: BatchWriter, judge: BatchJudge) {
    this.#batch = batch;
    this.#judge = judge;
  }

  get count(): number {
    return this.#batch.count;
  }

  get isFull(): boolean {
    return this.#batch.isFull;
  }

  add(path: WorkspacePath, content: Uint8Array, options: SmallWriteOptions): void {
    this.#batch.add(path, content, this.#judge.add(path, options));
  }

  async publish(options: BatchPublishOptions = {}): Promise<readonly BatchOutcome[]> {
    return this.#batch.publish(this.#judge.publish(options));
  }

  async sync(): Promise<void> {
    await this.#batch.sync();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#batch[Symbol.asyncDispose]();
  }
}
