import {
  type BigIntStats,
  closeSync,
  fchmod,
  fstatSync,
  fsync,
  futimes,
  linkSync,
  renameSync,
  statfsSync,
  unlinkSync,
  write,
} from "node:fs";
import { promisify } from "node:util";
import { createDigester, type Digest } from "../../content/digest.ts";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import { Fault, isFault } from "../../fault/fault.ts";
import { systemClock } from "../../lifetime/clock.ts";
import { baseName, parentPath, rootPath, type WorkspacePath } from "../../names/workspace-path.ts";
import type { ResumeFrom } from "../part.ts";
import { alreadyExists, fileTooLarge, pathChanged, rootFault, rootRefused } from "../refusals.ts";
import type { CommitOptions, StagedFile, StageOptions, WriteReceipt } from "../root-handle.ts";
import { createStagedName, keptNameOf } from "../staged-name.ts";
import { announce, foundAt, isSameContent, isSameThing, type RootContext, toEntry } from "./context.ts";
import { at, statEntry } from "./descriptor.ts";
import { toSeconds } from "./file-times.ts";
import { keepOwner, syncFolder } from "./on-disk.ts";
import { prepareParent, type PreparedParent, removeMade } from "./parents.ts";
import { expireEntry, keepStaged, openStaged, resumeStaged } from "./parts.ts";
import { forCanonical, openFolderAt } from "./place.ts";
import {
  conflict,
  digestTarget,
  type DigestedTarget,
  inspectTarget,
  requirePossible,
  type Target,
} from "./target.ts";

const writeAsync = promisify(write);
const fsyncAsync = promisify(fsync);
const fchmodAsync = promisify(fchmod);
const futimesAsync = promisify(futimes);

/** Smaller files are not worth the question how much room there is. */
const spaceAskedFrom = 1024 * 1024;
/** Waits before the next try of a rename that was refused for the moment. */
const retryAfterMs = [20, 80, 320];
const passingErrnos = new Set(["EPERM", "EBUSY", "EACCES"]);
/** After these nobody knows whether a rename took effect. */
const uncertainErrnos = new Set(["EIO", "ESTALE", "ETIMEDOUT"]);

/** `RootHandle.stageWrite`. */
export async function startStage(
  context: RootContext,
  path: WorkspacePath,
  options: StageOptions,
): Promise<StagedFile> {
  const staged = openStage(context, path, options);
  const resume = options.part?.resume;
  if (!resume) return staged;
  try {
    await staged.resume(resume);
    return staged;
  } catch (error) {
    await staged.discard();
    throw rootFault(error, path);
  }
}

function openStage(context: RootContext, path: WorkspacePath, options: StageOptions): Stage {
  if (path === "") throw rootRefused("written");
  const { announcedBytes, maxBytes } = options;
  if (announcedBytes !== undefined && maxBytes !== undefined && announcedBytes > maxBytes)
    throw fileTooLarge(path, maxBytes, announcedBytes);
  const parent = prepareParent(context, path, {
    createParents: options.createParents ?? true,
    check: options.check,
  });
  try {
    announce(context, "write", path);
    const target = { folder: parent.folder, name: baseName(parent.canonicalPath), path };
    requirePossible(options.precondition, inspectTarget(context, target), path);
    requireSpace(target, restOf(options));
    const staged = new Stage({ context, target, parent, options });
    context.stages.add(staged);
    return staged;
  } catch (error) {
    parent[Symbol.dispose]();
    removeMade(context, parent.made);
    throw rootFault(error, path);
  }
}

/** Bytes that are still to come. */
function restOf({ announcedBytes, part }: StageOptions): number | undefined {
  return announcedBytes === undefined ? undefined : announcedBytes - (part?.resume?.sizeBytes ?? 0);
}

function requireSpace({ folder, path }: Target, comingBytes: number | undefined): void {
  if (comingBytes === undefined || comingBytes < spaceAskedFrom) return;
  const { bavail, bsize } = statfsSync(folder.path);
  if (bavail * bsize >= comingBytes) return;
  throw new Fault("DISK_FULL", `${path} has no room on the disk`, {
    hint: "make room on that disk, and repeat the command",
    details: { path, limit: bavail * bsize, actual: comingBytes, errno: "ENOSPC" },
  });
}

interface StageParts {
  readonly context: RootContext;
  readonly target: Target;
  readonly parent: PreparedParent;
  readonly options: StageOptions;
}

class Stage implements StagedFile {
  readonly canonicalPath: WorkspacePath;
  readonly #context: RootContext;
  readonly #target: Target;
  readonly #parent: PreparedParent;
  readonly #options: StageOptions;
  readonly partKey: string | undefined;
  #digester = createDigester();
  #isKept = false;
  #isDropped = false;
  readonly #stagedName: string;
  readonly #fd: number;
  /** The call that is running; a descriptor is never closed under it. */
  #busy: Promise<unknown> = Promise.resolve();
  /** Why a write failed: what is on the disk is then not what was digested. */
  #failure: Error | undefined;
  #state: "open" | "committing" | "ended" = "open";

  constructor({ context, target, parent, options }: StageParts) {
    this.#context = context;
    this.#target = target;
    this.#parent = parent;
    this.#options = options;
    this.canonicalPath = parent.canonicalPath;
    this.partKey = options.part?.key;
    this.#stagedName = createStagedName(context.marker, this.partKey);
    this.#fd = openStaged(parent.folder, this.#stagedName, options.part?.resume && this.partKey);
  }

  /** Goes on behind what was kept, where it begins as it should. */
  async resume(from: ResumeFrom): Promise<void> {
    this.#digester = (await resumeStaged(this.#fd, from, this.#context.signal)) ?? createDigester();
  }

  keep(isKept: boolean): void {
    this.#isKept = isKept && !this.#isDropped;
  }

  dropPart(): void {
    this.#isDropped = true;
    this.#isKept = false;
  }

  get sizeBytes(): number {
    return this.#digester.sizeBytes;
  }

  digest(): Digest {
    return this.#digester.digest();
  }

  async write(chunk: Uint8Array): Promise<void> {
    this.#requireOpen();
    const position = this.#digester.sizeBytes;
    const { maxBytes } = this.#options;
    if (maxBytes !== undefined && position + chunk.length > maxBytes) {
      throw fileTooLarge(this.#target.path, maxBytes, position + chunk.length);
    }
    const writing = this.#writeAll(chunk, position);
    this.#busy = writing.catch((error: unknown) => {
      this.#failure ??= error instanceof Error ? error : new Error("a write failed", { cause: error });
    });
    // Digested while the bytes are on their way to the disk.
    this.#digester.update(chunk);
    await writing;
  }

  async #writeAll(chunk: Uint8Array, from: number): Promise<void> {
    try {
      for (let done = 0; done < chunk.length;) {
        const { bytesWritten } = await writeAsync(this.#fd, chunk, done, chunk.length - done, from + done);
        done += bytesWritten;
      }
    } catch (error) {
      throw unattempted(rootFault(error, this.#target.path));
    }
  }

  async commit(options: CommitOptions): Promise<WriteReceipt> {
    this.#requireOpen();
    this.#state = "committing";
    const work = this.#commit(options);
    this.#busy = work.catch(() => undefined);
    try {
      return await work;
    } finally {
      this.#state = "open";
      this.#isKept = false;
      await this.discard();
    }
  }

  async #commit(options: CommitOptions): Promise<WriteReceipt> {
    try {
      this.#requireExpected(options);
      const old = inspectTarget(this.#context, this.#target);
      await this.#settle(old);
      return await this.#context.locks.hold(this.canonicalPath, () => this.#publish(options));
    } catch (error) {
      throw unattempted(rootFault(error, this.#target.path));
    }
  }

  #requireExpected({ expected }: CommitOptions): void {
    if (!expected) return;
    const { sizeBytes } = this;
    const digest = this.digest();
    if (expected.sizeBytes === sizeBytes && (expected.digest === undefined || expected.digest === digest))
      return;
    throw new Fault("INTEGRITY_FAILURE", `what arrived for ${this.#target.path} is not what was announced`, {
      details: {
        path: this.#target.path,
        expected: expected.digest ?? expected.sizeBytes,
        actual: expected.digest === undefined ? sizeBytes : digest,
      },
    });
  }

  /** Mode, owner and times, then the disk: after this only the name is missing. */
  async #settle(old: BigIntStats | undefined): Promise<void> {
    const mode = this.#options.mode ?? (old === undefined ? 0o644 : Number(old.mode));
    if (old !== undefined) keepOwner(this.#fd, old);
    await fchmodAsync(this.#fd, mode & 0o777);
    if (this.#options.mtimeNs !== undefined) {
      const seconds = toSeconds(this.#options.mtimeNs);
      await futimesAsync(this.#fd, seconds, seconds);
    }
    await fsyncAsync(this.#fd);
  }

  async #publish(options: CommitOptions): Promise<WriteReceipt> {
    for (let attempt = 0; ; attempt += 1) {
      const digested = await this.#compare(options);
      options.signal?.throwIfAborted();
      this.#context.signal.throwIfAborted();
      try {
        const replaced = this.#publishNow(options, digested);
        if (replaced !== "changed") return await this.#finish(replaced, digested);
        if (attempt >= retryAfterMs.length) throw pathChanged(this.#target.path);
      } catch (error) {
        const errno = errnoOf(error);
        if (errno !== undefined && uncertainErrnos.has(errno))
          throw uncertain(rootFault(error, this.#target.path));
        const waitMs = retryAfterMs[attempt];
        if (errno === undefined || !passingErrnos.has(errno) || waitMs === undefined) throw error;
        await systemClock.sleep(waitMs, options.signal ? { signal: options.signal } : {});
      }
    }
  }

  async #compare({ precondition, signal }: CommitOptions): Promise<DigestedTarget | undefined> {
    if (precondition.kind !== "match") return undefined;
    const { path } = this.#target;
    const digested = await digestTarget(this.#context, this.#target, signal);
    if (digested?.digest === precondition.digest) return digested;
    if (!digested && precondition.orAbsent === true) return undefined;
    throw conflict(path, precondition.digest, digested?.digest);
  }

  /** The last looks and the rename, in one turn. */
  #publishNow(options: CommitOptions, digested: DigestedTarget | undefined): boolean | "changed" {
    const { path, folder, name } = this.#target;
    this.#requireSameParent();
    announce(this.#context, "commit", path);
    const old = inspectTarget(this.#context, this.#target);
    options.check?.(this.canonicalPath, old ? foundAt(old) : this.#parent.above);
    requirePossible(options.precondition, old, path);
    const { kind } = options.precondition;
    // It was compared with another state than stands there now, or with nothing.
    if (kind === "match" && old && !(digested && isSameContent(digested.stats, old))) return "changed";
    const staged = statEntry(folder, this.#stagedName);
    if (!staged || !isSameThing(staged, fstatSync(this.#fd, { bigint: true }))) throw pathChanged(path);
    this.#context.hooks.beforePublish?.({ operation: "commit", path });
    if (kind === "absent" || (kind === "match" && !old)) this.#publishNew();
    else renameSync(at(folder, this.#stagedName), at(folder, name));
    return old !== undefined;
  }

  /** Node has no exclusive rename; a second name that must be new, and the first taken away, is one. */
  #publishNew(): void {
    const { folder, name, path } = this.#target;
    try {
      linkSync(at(folder, this.#stagedName), at(folder, name));
    } catch (error) {
      if (errnoOf(error) === "EEXIST") throw alreadyExists(path);
      // A volume without hard links: nothing stood there a moment ago, and this turn is ours.
      if (errnoOf(error) !== "EPERM" && errnoOf(error) !== "ENOTSUP") throw error;
      renameSync(at(folder, this.#stagedName), at(folder, name));
      return;
    }
    unlinkSync(at(folder, this.#stagedName));
  }

  /** The folder may have been moved since it was opened: what is written now must still be beneath the root. */
  #requireSameParent(): void {
    const parent = parentPath(this.canonicalPath) ?? this.canonicalPath;
    try {
      using now = openFolderAt(forCanonical(this.#context.start), parent);
      if (isSameThing(now.folder.stat(), this.#parent.folder.stat())) return;
    } catch (error) {
      if (!isFault(error)) throw error;
    }
    throw pathChanged(this.#target.path);
  }

  async #finish(replaced: boolean, digested: DigestedTarget | undefined): Promise<WriteReceipt> {
    const stats = fstatSync(this.#fd, { bigint: true });
    if (this.partKey !== undefined) expireEntry(this.#parent.folder, keptNameOf(this.partKey), Infinity);
    try {
      await syncFolder(this.#parent);
    } catch (error) {
      throw committed(rootFault(error, this.#target.path));
    }
    return {
      publication: "committed",
      entry: toEntry(this.#target.path, stats, { canonicalPath: this.canonicalPath }),
      canonicalPath: this.canonicalPath,
      sizeBytes: this.sizeBytes,
      digest: this.digest(),
      replaced,
      ...(digested ? { replacedDigest: digested.digest } : {}),
    };
  }

  async discard(): Promise<void> {
    await this.#busy;
    if (this.#state !== "open") return;
    this.#state = "ended";
    this.#context.stages.delete(this);
    try {
      this.#unlinkStaged();
    } finally {
      closeSync(this.#fd);
      this.#parent[Symbol.dispose]();
    }
  }

  /** After a commit the name is gone already, and the folders are in use. */
  #unlinkStaged(): void {
    const staged = statEntry(this.#parent.folder, this.#stagedName);
    if (!staged || !isSameThing(staged, fstatSync(this.#fd, { bigint: true }))) return;
    if (this.#keepPart()) return;
    unlinkSync(at(this.#parent.folder, this.#stagedName));
    removeMade(this.#context, this.#parent.made);
  }

  /** Whether it was kept; what is on the disk is then what was digested. */
  #keepPart(): boolean {
    if (!this.#isKept || this.partKey === undefined) return false;
    if (this.sizeBytes === 0 || this.#failure !== undefined) return false;
    const folder = parentPath(this.canonicalPath) ?? rootPath;
    const part = { folder, key: this.partKey, at: this.#parent.folder, name: this.#stagedName };
    keepStaged(this.#context, part);
    return true;
  }

  #requireOpen(): void {
    this.#context.signal.throwIfAborted();
    if (this.#state !== "open") throw new Error("the staged file was committed or discarded");
    if (this.#failure !== undefined) throw this.#failure;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.discard();
  }
}

const unattempted = (error: unknown): unknown => published(error, "unattempted");
const uncertain = (error: unknown): unknown => published(error, "uncertain");
const committed = (error: unknown): unknown => published(error, "committed");

/** Says in a fault what the write left; what was said first stays. */
function published(error: unknown, publication: "unattempted" | "uncertain" | "committed"): unknown {
  if (!isFault(error) || error.details["publication"] !== undefined) return error;
  return error.with({ details: { publication } });
}
