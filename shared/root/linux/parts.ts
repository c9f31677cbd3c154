import {
  type BigIntStats,
  constants,
  closeSync,
  fstatSync,
  ftruncate,
  read,
  renameSync,
  unlinkSync,
} from "node:fs";
import { promisify } from "node:util";
import { createDigester, type Digester } from "../../content/digest.ts";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import { isFault } from "../../fault/fault.ts";
import { appendPath, baseName, parentPath, type WorkspacePath } from "../../names/workspace-path.ts";
import type { FoundPart, ResumeFrom } from "../part.ts";
import { rootFault, rootRefused } from "../refusals.ts";
import type { PartOptions } from "../root-handle.ts";
import { keptNameOf } from "../staged-name.ts";
import type { RootContext } from "./context.ts";
import { at, createFile, type Descriptor, statEntry } from "./descriptor.ts";
import { forCanonical, openFolderAt } from "./place.ts";

const readAsync = promisify(read);
const truncateAsync = promisify(ftruncate);
const { O_RDWR, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants;
const readBytes = 256 * 1024;

/** A part that is kept beside its target. */
export interface KeptPart {
  /** The folder that holds it. */
  readonly folder: WorkspacePath;
  readonly key: string;
}

/**
 * Opens a file to stage into: what is kept under `key`, taken by renaming it, so that only one writer has it; else a new
 * one.
 */
export function openStaged(folder: Descriptor, stagedName: string, key: string | undefined): number {
  if (key !== undefined && tryTake(folder, keptNameOf(key), stagedName)) {
    const fd = tryOpenOwn(folder, stagedName);
    if (fd !== undefined) return fd;
    unlinkSync(at(folder, stagedName));
  }
  return createFile(folder, stagedName);
}

function tryTake(folder: Descriptor, from: string, to: string): boolean {
  try {
    renameSync(at(folder, from), at(folder, to));
    return true;
  } catch (error) {
    if (errnoOf(error) !== "ENOENT") throw error;
    return false;
  }
}

/** Opens a part to go on with; undefined for what this program would not have left there. */
function tryOpenOwn(folder: Descriptor, name: string): number | undefined {
  let fd: number;
  try {
    fd = folder.open(name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  } catch {
    return undefined;
  }
  if (isPart(fstatSync(fd, { bigint: true }))) return fd;
  closeSync(fd);
  return undefined;
}

function isPart(stats: BigIntStats): boolean {
  const own = process.getuid?.();
  return stats.isFile() && stats.nlink === 1n && (own === undefined || stats.uid === BigInt(own));
}

/**
 * The digest so far of a staged file that begins with what was asked for, cut to that length; undefined, and the file
 * empty, when it begins otherwise.
 */
export async function resumeStaged(
  fd: number,
  from: ResumeFrom,
  signal: AbortSignal,
): Promise<Digester | undefined> {
  const digester = await digestBegin(fd, from.sizeBytes, signal);
  const isSame = digester.sizeBytes === from.sizeBytes && digester.digest() === from.digest;
  await truncateAsync(fd, isSame ? from.sizeBytes : 0);
  return isSame ? digester : undefined;
}

async function digestBegin(fd: number, maxBytes: number, signal: AbortSignal): Promise<Digester> {
  const digester = createDigester();
  const buffer = Buffer.allocUnsafe(Math.max(1, Math.min(readBytes, maxBytes)));
  while (digester.sizeBytes < maxBytes) {
    const wanted = Math.min(buffer.length, maxBytes - digester.sizeBytes);
    const { bytesRead } = await readAsync(fd, buffer, 0, wanted, digester.sizeBytes);
    signal.throwIfAborted();
    if (bytesRead === 0) break;
    digester.update(buffer.subarray(0, bytesRead));
  }
  return digester;
}

/** Leaves a staged file under the name of what is kept; an older part of that key goes. */
export function keepStaged(
  context: RootContext,
  staged: KeptPart & { readonly at: Descriptor; readonly name: string },
): void {
  renameSync(at(staged.at, staged.name), at(staged.at, keptNameOf(staged.key)));
  context.kept.add(staged.folder, staged.key);
}

/** `RootHandle.findPart`. */
export async function findPart(
  context: RootContext,
  path: WorkspacePath,
  { key, check, signal }: PartOptions,
): Promise<FoundPart | undefined> {
  try {
    using parent = openParent(context, path);
    check?.(parent.canonicalPath);
    const fd = tryOpenOwn(parent.folder, keptNameOf(key));
    if (fd === undefined) return undefined;
    try {
      const both = signal ? AbortSignal.any([context.signal, signal]) : context.signal;
      const digester = await digestBegin(fd, Number.MAX_SAFE_INTEGER, both);
      return { sizeBytes: digester.sizeBytes, digest: digester.digest() };
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    if (isFault(error, "NOT_FOUND")) return undefined;
    throw rootFault(error, path);
  }
}

/** `RootHandle.dropPart`. */
export function dropPart(context: RootContext, path: WorkspacePath, { key, check }: PartOptions): void {
  for (const stage of context.stages) if (stage.partKey === key) stage.dropPart?.();
  try {
    using parent = openParent(context, path);
    check?.(parent.canonicalPath);
    unlinkSync(at(parent.folder, keptNameOf(key)));
  } catch (error) {
    if (errnoOf(error) === "ENOENT" || isFault(error, "NOT_FOUND")) return;
    throw rootFault(error, path);
  }
}

interface Parent extends Disposable {
  readonly folder: Descriptor;
  /** Of the file that the part is for. */
  readonly canonicalPath: WorkspacePath;
}

function openParent(context: RootContext, path: WorkspacePath): Parent {
  const above = parentPath(path);
  if (above === undefined) throw rootRefused("written");
  const opened = openFolderAt(context.start, above);
  const name = baseName(path);
  const canonicalPath = appendPath(opened.canonicalPath, name as WorkspacePath);
  return { folder: opened.folder, canonicalPath, [Symbol.dispose]: () => opened[Symbol.dispose]() };
}

/** Which parts are kept below a root, as far as this process knows: those it kept, and those that a sweep found. */
export class KeptParts {
  readonly #folders = new Map<WorkspacePath, Set<string>>();

  /** Knows of one more. */
  add(folder: WorkspacePath, key: string): void {
    const keys = this.#folders.get(folder) ?? new Set();
    this.#folders.set(folder, keys.add(key));
  }

  /** Removes those that were last written before `beforeMs` (milliseconds since 1970), and forgets those that are gone. */
  expire(context: RootContext, beforeMs: number): number {
    let removed = 0;
    for (const [folder, keys] of this.#folders) {
      for (const key of keys) {
        const state = tryExpire(context, { folder, key }, beforeMs);
        if (state === "removed") removed += 1;
        if (state !== "kept") keys.delete(key);
      }
      if (keys.size === 0) this.#folders.delete(folder);
    }
    return removed;
  }
}

/** What cannot be reached any more is none of ours. */
function tryExpire(
  context: RootContext,
  { folder, key }: KeptPart,
  beforeMs: number,
): "kept" | "removed" | "gone" {
  try {
    using opened = openFolderAt(forCanonical(context.start), folder);
    return expireEntry(opened.folder, keptNameOf(key), beforeMs);
  } catch {
    return "gone";
  }
}

/** Removes a part that was last written before `beforeMs`. */
export function expireEntry(folder: Descriptor, name: string, beforeMs: number): "kept" | "removed" | "gone" {
  const stats = statEntry(folder, name);
  if (!stats) return "gone";
  if (Number(stats.mtimeNs / 1_000_000n) >= beforeMs) return "kept";
  unlinkSync(at(folder, name));
  return "removed";
}
