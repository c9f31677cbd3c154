import { type BigIntStats, statSync } from "node:fs";
import { Fault } from "../../fault/fault.ts";
import type { NameFolding } from "../../names/folded-name.ts";
import { rootPath, type WorkspacePath } from "../../names/workspace-path.ts";
import type { FolderTime } from "../folder-time.ts";
import type { Look, LookOptions } from "../look.ts";
import type { FoundPart } from "../part.ts";
import { pathChanged, rootFault } from "../refusals.ts";
import type { RemoveOptions } from "../remove-options.ts";
import type {
  BatchWriteOptions,
  BatchWriter,
  Containment,
  Entry,
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
  RootOptions,
  StagedFile,
  StageOptions,
} from "../root-handle.ts";
import type { SmallFile } from "../small-file.ts";
import { createAsideName, type StageMarker } from "../staged-name.ts";
import type { WalkItem, WalkOptions } from "../walk-options.ts";
import { batchWrite } from "./batch-write.ts";
import type { RootContext } from "./context.ts";
import type { Descriptor } from "./descriptor.ts";
import { setFolderTimes } from "./folder-times.ts";
import { openTop } from "./kernel-descriptor.ts";
import { list, openFolder, stat } from "./list.ts";
import { look } from "./look.ts";
import { moveAcross } from "./move-across.ts";
import { makeFolder, makeLink, move } from "./move.ts";
import { openFile, readSmall } from "./open-file.ts";
import { dropPart, findPart, KeptParts } from "./parts.ts";
import { PathLocks } from "./path-locks.ts";
import { readOwnMarker } from "./process-marker.ts";
import { remove } from "./remove.ts";
import { startStage } from "./stage-write.ts";
import { sweep } from "./sweep.ts";
import { foldingByVolume, tryVolumeType } from "./volume.ts";
import { walk } from "./walk.ts";

const procMagic = 0x9fa0;

/** How a root holds the folders beneath it. */
export interface Door {
  readonly containment: Containment;
  /** The folder at an absolute path, links in it resolved. */
  openTop(absolutePath: string): Descriptor;
  /** What the volume of a folder does not tell apart. */
  foldingOf(top: Descriptor): NameFolding;
}

/** Opens a root on Linux: everything beneath it is reached through descriptors. Needs procfs. */
export function openLinuxRoot(absolutePath: string, options: RootOptions): RootHandle {
  requireProcfs();
  return openBeneath({ containment: "kernel", openTop, foldingOf: foldingByVolume }, absolutePath, options);
}

/** Opens a root that holds its folders through a door. */
export function openBeneath(door: Door, absolutePath: string, options: RootOptions): RootHandle {
  const top = openRootFolder(door, absolutePath, options);
  try {
    return new OpenRoot(door, { absolutePath, top }, options);
  } catch (error) {
    top[Symbol.dispose]();
    throw error;
  }
}

function openRootFolder(door: Door, absolutePath: string, { shown }: RootOptions): Descriptor {
  try {
    return door.openTop(absolutePath);
  } catch (error) {
    throw rootFault(error, shown ?? "the workspace's folder");
  }
}

function statRootFolder(absolutePath: string, { shown }: RootOptions): BigIntStats | undefined {
  try {
    return statSync(absolutePath, { bigint: true, throwIfNoEntry: false });
  } catch (error) {
    throw rootFault(error, shown ?? "the workspace's folder");
  }
}

function requireProcfs(): void {
  // Asked where the descriptors are: a process under permissions need be let in nowhere else.
  if (tryVolumeType("/proc/self/fd") === procMagic) return;
  throw new Fault(
    "IO_ERROR",
    "/proc is not mounted, and without it no folder can be kept closed to the outside",
    {
      details: { reason: "no_procfs" },
      hint: "mount procfs on /proc",
    },
  );
}

interface OpenedTop {
  readonly absolutePath: string;
  readonly top: Descriptor;
}

/** The folder that stands at the root's path now, and what runs in it. */
interface Standing {
  readonly top: Descriptor;
  readonly identity: RootHandle["identity"];
  readonly context: RootContext;
  readonly closing: AbortController;
}

class OpenRoot implements RootHandle {
  readonly containment: Containment;
  readonly folding: NameFolding;
  readonly swept: Promise<number>;
  readonly #door: Door;
  readonly #absolutePath: string;
  readonly #options: RootOptions;
  #standing: Standing;
  #ending: Promise<void> | undefined;

  constructor(door: Door, { absolutePath, top }: OpenedTop, options: RootOptions) {
    this.#door = door;
    this.containment = door.containment;
    this.#absolutePath = absolutePath;
    this.#options = options;
    this.#standing = stand(top, options);
    this.folding = door.foldingOf(top);
    this.swept = startSweep(this.#standing.context, options.sweep ?? false);
  }

  get identity(): RootHandle["identity"] {
    return this.#standing.identity;
  }

  async stat(path: WorkspacePath, options: OperationOptions = {}): Promise<Entry> {
    return stat(this.#use(), path, options);
  }

  async look(path: WorkspacePath, options: LookOptions): Promise<Look> {
    return look(this.#use(), path, options);
  }

  async list(path: WorkspacePath, options: ListOptions = {}): Promise<Listing> {
    return list(this.#use(), path, options);
  }

  async openFolder(path: WorkspacePath, options: OperationOptions = {}): Promise<OpenFolder> {
    return openFolder(this.#use(), path, options);
  }

  async openFile(path: WorkspacePath, options: OpenFileOptions = {}): Promise<OpenFile> {
    return openFile(this.#use(), path, options);
  }

  readSmall(path: WorkspacePath, options: OpenFileOptions & { readonly maxBytes: number }): SmallFile {
    return readSmall(this.#use(), path, options);
  }

  async stageWrite(path: WorkspacePath, options: StageOptions = {}): Promise<StagedFile> {
    return startStage(this.#use(), path, options);
  }

  async findPart(path: WorkspacePath, options: PartOptions): Promise<FoundPart | undefined> {
    // What a dead process left is kept under its key once the sweep has met it.
    await this.swept;
    return findPart(this.#use(), path, options);
  }

  async dropPart(path: WorkspacePath, options: PartOptions): Promise<void> {
    dropPart(this.#use(), path, options);
  }

  expireParts(beforeMs: number): number {
    const context = this.#use();
    return context.kept.expire(context, beforeMs);
  }

  batchWrite(options: BatchWriteOptions = {}): BatchWriter {
    return batchWrite(this.#use(), options);
  }

  async remove(path: WorkspacePath, options: RemoveOptions = {}): Promise<number> {
    return remove(this.#use(), path, options);
  }

  async move(from: WorkspacePath, to: WorkspacePath, options: MoveOptions = {}): Promise<Entry> {
    const movement = { ...options, from, to };
    return move(this.#use(), movement) ?? (await moveAcross(this.#use(), movement));
  }

  async makeFolder(path: WorkspacePath, options: MakeFolderOptions = {}): Promise<Entry> {
    return makeFolder(this.#use(), path, options);
  }

  async setFolderTimes(times: readonly FolderTime[], options: OperationOptions = {}): Promise<void> {
    await setFolderTimes(this.#use(), times, options);
  }

  createAsideName(): string {
    return createAsideName(this.#use().marker);
  }

  walk(path: WorkspacePath, options: WalkOptions = {}): AsyncIterable<readonly WalkItem[]> {
    return walk(this.#use(), path, options);
  }

  async makeLink(path: WorkspacePath, target: string, options: MakeLinkOptions = {}): Promise<Entry> {
    return makeLink(this.#use(), { ...options, path, target });
  }

  /** Each operation begins here: it looks whether the folder is still the one that its path names. */
  #use(): RootContext {
    if (this.#ending) throw closed();
    const stats = statRootFolder(this.#absolutePath, this.#options);
    const { identity } = this.#standing;
    if (stats?.ino !== identity.inode || stats.dev !== identity.device) this.#replace();
    return this.#standing.context;
  }

  #replace(): void {
    const old = this.#standing;
    this.#standing = stand(openRootFolder(this.#door, this.#absolutePath, this.#options), this.#options);
    leave(old, pathChanged(rootPath)).catch(() => undefined);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#ending ??= leave(this.#standing, closed());
    await this.#ending;
    await this.swept;
  }
}

/** Never rejects: what could not be removed is found by the next one. */
function startSweep(context: RootContext, which: boolean | "top"): Promise<number> {
  if (which === false) return Promise.resolve(0);
  return sweep(context, which === "top" ? "top" : "below").catch(() => 0);
}

function stand(top: Descriptor, options: RootOptions): Standing {
  const closing = new AbortController();
  const { dev, ino, birthtimeNs } = top.stat();
  let marker: StageMarker | undefined;
  const context: RootContext = {
    start: {
      top,
      realPath: top.realPath,
      followSymlinks: options.followSymlinks ?? false,
      trusted: options.followSymlinks === true ? (options.trusted ?? []) : [],
    },
    allowHardLinks: options.allowHardLinks ?? false,
    hooks: options.hooks ?? {},
    locks: new PathLocks(),
    // Read at the first write: who only reads need not know who it is.
    get marker() {
      marker ??= readOwnMarker();
      return marker;
    },
    stages: new Set(),
    kept: new KeptParts(),
    signal: closing.signal,
  };
  return { top, identity: { device: dev, inode: ino, bornNs: birthtimeNs }, context, closing };
}

/** Ends what runs in a folder. Whatever still looks at its top afterwards finds it closed, never another folder. */
async function leave({ top, context, closing }: Standing, reason: Fault): Promise<void> {
  closing.abort(reason);
  await Promise.allSettled([...context.stages].map((stage) => stage[Symbol.asyncDispose]()));
  top[Symbol.dispose]();
}

function closed(): Fault {
  return new Fault("CANCELLED", "the workspace's folder was closed");
}
