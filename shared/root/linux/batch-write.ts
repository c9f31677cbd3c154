import {
  type BigIntStats,
  closeSync,
  fchmodSync,
  fsync,
  futimesSync,
  lchownSync,
  linkSync,
  openSync,
  renameSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { promisify } from "node:util";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import { Fault } from "../../fault/fault.ts";
import { systemClock } from "../../lifetime/clock.ts";
import { appendPath, baseName, parentPath, type WorkspacePath } from "../../names/workspace-path.ts";
import { syncVolume } from "../../process/sync-volume.ts";
import { alreadyExists, fileTooLarge, pathChanged, rootFault, rootRefused } from "../refusals.ts";
import type {
  BatchOutcome,
  BatchPublishOptions,
  BatchWriteOptions,
  BatchWriter,
  SmallWriteOptions,
} from "../root-handle.ts";
import { createStagedNames } from "../staged-name.ts";
import { announce, type RootContext } from "./context.ts";
import { at, createFile, type Descriptor } from "./descriptor.ts";
import { toSeconds } from "./file-times.ts";
import { requireUsableName } from "./parents.ts";
import { createPause, type Pause } from "./pause.ts";
import { forCanonical, forChange, openFolderAt } from "./place.ts";
import { inspectTarget, requirePossible, type Target } from "./target.ts";

const fsyncAsync = promisify(fsync);

/** Files staged before they are published. */
const maxStaged = 16_384;
/** Fewer files are synced one by one: starting a program costs more. */
const fewFiles = 8;
/** Waits before the next try of a rename that was refused for the moment. */
const retryAfterMs = [20, 80, 320];
const passingErrnos = new Set(["EPERM", "EBUSY", "EACCES"]);

/** `RootHandle.batchWrite`. */
export function batchWrite(context: RootContext, options: BatchWriteOptions = {}): BatchWriter {
  const batch = new Batch(context, options);
  context.stages.add(batch);
  return batch;
}

/** Files of one folder that were staged one after the other. */
interface Group {
  readonly path: WorkspacePath;
  readonly canonicalPath: WorkspacePath;
  /** Which folder it was: one that was replaced since is not written to. */
  readonly device: bigint;
  readonly inode: bigint;
  readonly items: Item[];
}

interface Item {
  readonly path: WorkspacePath;
  readonly name: string;
  readonly stagedName: string;
  readonly precondition: SmallWriteOptions["precondition"];
  /** Undefined until the file is published or has failed. */
  outcome: BatchOutcome | undefined;
}

class Batch implements BatchWriter {
  readonly #context: RootContext;
  readonly #isUnseen: boolean;
  readonly #nextName: () => string;
  #groups: Group[] = [];
  /** The last group's folder: files mostly come folder by folder. */
  #folder: Descriptor | undefined;
  #count = 0;
  #isEnded = false;

  constructor(context: RootContext, options: BatchWriteOptions) {
    this.#context = context;
    this.#isUnseen = options.isUnseen ?? false;
    this.#nextName = createStagedNames(context.marker);
  }

  get isFull(): boolean {
    return this.#count >= maxStaged;
  }

  get count(): number {
    return this.#count;
  }

  add(path: WorkspacePath, content: Uint8Array, options: SmallWriteOptions): void {
    this.#requireOpen();
    if (path === "") throw rootRefused("written");
    if (options.maxBytes !== undefined && content.byteLength > options.maxBytes) {
      throw fileTooLarge(path, options.maxBytes, content.byteLength);
    }
    requireUsableName(path);
    const { group, folder } = this.#enter(parentPath(path) ?? path);
    const name = baseName(path);
    options.check?.(appendPath(group.canonicalPath, name as WorkspacePath));
    announce(this.#context, "write", path);
    // What cannot be stored is not staged first; asked again when it gets its name.
    if (!this.#isUnseen && options.precondition.kind === "absent") {
      requirePossible(options.precondition, inspectTarget(this.#context, { folder, name, path }), path);
    }
    // Where nobody looks yet a file has its name at once.
    const stagedName = this.#isUnseen ? name : this.#nextName();
    this.#write({ folder, name: stagedName, path }, content, options);
    const outcome = this.#isUnseen ? { path, fault: undefined } : undefined;
    group.items.push({ path, name, stagedName, precondition: options.precondition, outcome });
    this.#count += 1;
  }

  #write({ folder, name, path }: Target, content: Uint8Array, options: SmallWriteOptions): void {
    try {
      const fd = createFile(folder, name);
      try {
        fill(fd, content, options);
      } catch (error) {
        unlinkSync(at(folder, name));
        throw error;
      } finally {
        closeSync(fd);
      }
    } catch (error) {
      throw rootFault(error, path);
    }
  }

  #enter(path: WorkspacePath): { readonly group: Group; readonly folder: Descriptor } {
    const last = this.#groups.at(-1);
    if (last?.path === path && this.#folder) return { group: last, folder: this.#folder };
    this.#leave();
    const { folder, canonicalPath } = openFolderAt(forChange(this.#context.start), path);
    this.#folder = folder;
    const { dev, ino } = folder.stat();
    const group: Group = { path, canonicalPath, device: dev, inode: ino, items: [] };
    this.#groups.push(group);
    return { group, folder };
  }

  #leave(): void {
    this.#folder?.[Symbol.dispose]();
    this.#folder = undefined;
  }

  async publish(options: BatchPublishOptions = {}): Promise<readonly BatchOutcome[]> {
    this.#requireOpen();
    this.#leave();
    const groups = this.#groups;
    const pause = createPause(this.#context.signal);
    try {
      await this.#sync(groups, pause);
      options.signal?.throwIfAborted();
      if (!this.#isUnseen) for (const group of groups) await this.#publishGroup(group, options, pause);
      return groups.flatMap(({ items }) => items.flatMap(({ outcome }) => outcome ?? []));
    } finally {
      await this.#unlinkUnpublished();
      this.#groups = [];
      this.#count = 0;
    }
  }

  /** All of it is on the disk before any of it has its name. */
  async #sync(groups: readonly Group[], pause: Pause): Promise<void> {
    if (this.#count === 0) return;
    const { top } = this.#context.start;
    const shared = this.#count > fewFiles && (await syncVolume(top.pathForOthers, this.#context.signal));
    if (shared) return;
    for (const group of groups) {
      await this.#inGroup(group, async (folder) => {
        for (const { stagedName } of group.items) {
          if (pause.isDue()) await pause.take();
          await syncAt(at(folder, stagedName));
        }
      });
    }
  }

  async #publishGroup(group: Group, options: BatchPublishOptions, pause: Pause): Promise<void> {
    await this.#inGroup(group, async (folder) => {
      for (const item of group.items) {
        // What others may have done meanwhile is looked at again after each pause.
        if (pause.isDue()) {
          await pause.take();
          options.signal?.throwIfAborted();
          this.#assertInPlace(group);
        }
        await this.#publishItem(group, item, { folder, options });
      }
    });
  }

  async #publishItem(group: Group, item: Item, { folder, options }: Publishing): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        options.check?.(appendPath(group.canonicalPath, item.name as WorkspacePath));
        this.#rename(item, folder);
        item.outcome = { path: item.path, fault: undefined };
        return;
      } catch (error) {
        const errno = errnoOf(error);
        const waitMs = retryAfterMs[attempt];
        if (errno !== undefined && passingErrnos.has(errno) && waitMs !== undefined) {
          await systemClock.sleep(waitMs, { signal: this.#context.signal });
          this.#assertInPlace(group);
          continue;
        }
        const fault = rootFault(error, item.path);
        if (!(fault instanceof Fault)) throw fault;
        item.outcome = { path: item.path, fault };
        return;
      }
    }
  }

  #rename({ path, name, stagedName, precondition }: Item, folder: Descriptor): void {
    announce(this.#context, "commit", path);
    const old = inspectTarget(this.#context, { folder, name, path });
    requirePossible(precondition, old, path);
    if (old) keepOwnerOf(old, at(folder, stagedName));
    this.#context.hooks.beforePublish?.({ operation: "commit", path });
    const [from, to] = [at(folder, stagedName), at(folder, name)];
    if (precondition.kind !== "absent") {
      renameSync(from, to);
      return;
    }
    try {
      linkSync(from, to);
    } catch (error) {
      if (errnoOf(error) === "EEXIST") throw alreadyExists(path);
      if (errnoOf(error) !== "EPERM" && errnoOf(error) !== "ENOTSUP") throw error;
      renameSync(from, to);
      return;
    }
    unlinkSync(from);
  }

  /** Works in a group's folder, opened once more: it must still be the one that the files were staged in. */
  async #inGroup(group: Group, work: (folder: Descriptor) => Promise<void>): Promise<void> {
    let opened: ReturnType<typeof openFolderAt> | undefined;
    try {
      opened = this.#requireInPlace(group);
      await work(opened.folder);
    } catch (error) {
      if (!(error instanceof Fault) || this.#context.signal.aborted) throw error;
      for (const item of group.items) item.outcome ??= { path: item.path, fault: error };
    } finally {
      opened?.[Symbol.dispose]();
    }
  }

  #assertInPlace(group: Group): void {
    this.#requireInPlace(group)[Symbol.dispose]();
  }

  /** The group's folder; the caller disposes it. */
  #requireInPlace(group: Group): ReturnType<typeof openFolderAt> {
    const opened = openFolderAt(forCanonical(this.#context.start), group.canonicalPath);
    const { dev, ino } = opened.folder.stat();
    if (dev === group.device && ino === group.inode) return opened;
    opened[Symbol.dispose]();
    throw pathChanged(group.path);
  }

  async sync(): Promise<void> {
    this.#requireOpen();
    await syncVolume(this.#context.start.top.pathForOthers, this.#context.signal);
  }

  async #unlinkUnpublished(): Promise<void> {
    for (const group of this.#groups) {
      const left = group.items.filter(({ outcome }) => outcome === undefined || outcome.fault !== undefined);
      if (left.length === 0) continue;
      try {
        using opened = this.#requireInPlace(group);
        for (const { stagedName } of left) tryUnlink(opened.folder, stagedName);
      } catch (error) {
        // The folder is gone or another one: the sweep finds what was left in it.
        if (!(error instanceof Fault)) throw error;
      }
    }
  }

  #requireOpen(): void {
    if (this.#isEnded) throw new Error("the batch was disposed");
    this.#context.signal.throwIfAborted();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#context.stages.delete(this);
    this.#leave();
    await this.#unlinkUnpublished();
  }
}

interface Publishing {
  readonly folder: Descriptor;
  readonly options: BatchPublishOptions;
}

/** Keeps the owner of a file that is about to be replaced, where this process may give files away. */
function keepOwnerOf(old: BigIntStats, path: string | Buffer): void {
  const own = process.geteuid?.();
  if (own === undefined || (BigInt(own) === old.uid && BigInt(process.getegid?.() ?? own) === old.gid))
    return;
  try {
    lchownSync(path, Number(old.uid), Number(old.gid));
  } catch (error) {
    if (errnoOf(error) !== "EPERM") throw error;
  }
}

function fill(fd: number, content: Uint8Array, { mode, mtimeNs }: SmallWriteOptions): void {
  for (let done = 0; done < content.byteLength;) done += writeSync(fd, content, done);
  fchmodSync(fd, mode & 0o777);
  if (mtimeNs === undefined) return;
  const seconds = toSeconds(mtimeNs);
  futimesSync(fd, seconds, seconds);
}

async function syncAt(path: string | Buffer): Promise<void> {
  const fd = openSync(path, "r");
  try {
    await fsyncAsync(fd);
  } finally {
    closeSync(fd);
  }
}

function tryUnlink(folder: Descriptor, name: string): void {
  try {
    unlinkSync(at(folder, name));
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw error;
  }
}
