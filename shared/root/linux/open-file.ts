import { type BigIntStats, closeSync, fstatSync, read, readSync } from "node:fs";
import { promisify } from "node:util";
import type { WorkspacePath } from "../../names/workspace-path.ts";
import { changedWhileRead, fileTooLarge, rootFault } from "../refusals.ts";
import type { Entry, OpenFile, OpenFileOptions } from "../root-handle.ts";
import type { SmallFile } from "../small-file.ts";
import {
  announce,
  foundAt,
  isNameless,
  isSameContent,
  lookUntilNamed,
  openPlace,
  requireFile,
  type RootContext,
  toEntry,
} from "./context.ts";
import { findPlace, followingFolders, type Place } from "./place.ts";

const readAsync = promisify(read);
/** A file that is written to again and again is read so often. */
const maxReads = 8;

/** A file that was opened, with the state it had then. */
export interface OpenedFile {
  readonly fd: number;
  readonly stats: BigIntStats;
  readonly canonicalPath: WorkspacePath;
}

/** Opens the file at `path` beneath the root, in this turn; the caller closes the descriptor. */
function openBeneath(context: RootContext, path: WorkspacePath, options: OpenFileOptions): OpenedFile {
  return lookUntilNamed(path, () => tryOpenBeneath(context, path, options));
}

function tryOpenBeneath(
  context: RootContext,
  path: WorkspacePath,
  options: OpenFileOptions,
): OpenedFile | undefined {
  using place = findOpened(context, path, options);
  announce(context, "open", path);
  using named = openPlace(place, path);
  const canonicalPath = place.canonicalPath;
  const stats = named.stat();
  if (isNameless(stats)) return undefined;
  requireFile(context, stats, path);
  options.check?.(canonicalPath, foundAt(stats));
  requireSize(path, Number(stats.size), options.maxBytes);
  try {
    return { fd: named.openForReading(), stats, canonicalPath };
  } catch (error) {
    throw rootFault(error, path);
  }
}

function findOpened({ start }: RootContext, path: WorkspacePath, options: OpenFileOptions): Place {
  if (options.followFolders !== true) return findPlace(start, path, "follow");
  return findPlace(followingFolders(start), path, "keep");
}

/** `RootHandle.openFile`. */
export function openFile(context: RootContext, path: WorkspacePath, options: OpenFileOptions): OpenFile {
  return new BeneathFile(path, openBeneath(context, path, options), options.maxBytes);
}

/** `RootHandle.readSmall`. */
export function readSmall(
  context: RootContext,
  path: WorkspacePath,
  options: OpenFileOptions & { readonly maxBytes: number },
): SmallFile {
  for (let tries = 0; tries < maxReads; tries += 1) {
    const read = readOnce(context, path, options);
    if (read) return read;
  }
  throw changedWhileRead(path);
}

/** Undefined when it was written to meanwhile: what was read may be a mixture. */
function readOnce(
  context: RootContext,
  path: WorkspacePath,
  options: OpenFileOptions & { readonly maxBytes: number },
): SmallFile | undefined {
  const { fd, stats, canonicalPath } = openBeneath(context, path, options);
  try {
    // One byte more than the file had shows whether it grew.
    const buffer = Buffer.allocUnsafe(Number(stats.size) + 1);
    const sizeBytes = readFully(fd, buffer, 0);
    requireSize(path, sizeBytes, options.maxBytes);
    const content =
      sizeBytes < buffer.length ? buffer.subarray(0, sizeBytes) : readRest(fd, buffer, options.maxBytes);
    requireSize(path, content.length, options.maxBytes);
    if (!isSameContent(stats, fstatSync(fd, { bigint: true }))) return undefined;
    return { entry: { ...toEntry(path, stats, { canonicalPath }), sizeBytes: content.length }, content };
  } catch (error) {
    throw rootFault(error, path);
  } finally {
    closeSync(fd);
  }
}

/** The file grew since its size was taken (or is one of those that say 0): reads on, one byte past the limit at most. */
function readRest(fd: number, first: Buffer, maxBytes: number): Buffer {
  const rest = Buffer.allocUnsafe(Math.max(0, maxBytes + 1 - first.length));
  return Buffer.concat([first, rest.subarray(0, readFully(fd, rest, first.length))]);
}

/** Fills `buffer` from `position` on; less only at the end of the file. */
export function readFully(fd: number, buffer: Uint8Array, position: number): number {
  let filled = 0;
  while (filled < buffer.length) {
    const count = readSync(fd, buffer, filled, buffer.length - filled, position + filled);
    if (count === 0) break;
    filled += count;
  }
  return filled;
}

function requireSize(path: WorkspacePath, actual: number, maxBytes: number | undefined): void {
  if (maxBytes !== undefined && actual > maxBytes) throw fileTooLarge(path, maxBytes, actual);
}

class BeneathFile implements OpenFile {
  readonly entry: Entry;
  readonly canonicalPath: WorkspacePath;
  readonly #stats: BigIntStats;
  readonly #maxBytes: number | undefined;
  #fd: number;
  #reading = 0;
  #isClosed = false;

  constructor(path: WorkspacePath, opened: OpenedFile, maxBytes: number | undefined) {
    this.entry = toEntry(path, opened.stats, { canonicalPath: opened.canonicalPath });
    this.canonicalPath = opened.canonicalPath;
    this.#stats = opened.stats;
    this.#fd = opened.fd;
    this.#maxBytes = maxBytes;
  }

  async read(buffer: Uint8Array, position: number): Promise<number> {
    const fd = this.#requireOpen();
    this.#reading += 1;
    try {
      let filled = 0;
      while (filled < buffer.length) {
        const { bytesRead } = await readAsync(fd, buffer, filled, buffer.length - filled, position + filled);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
      requireSize(this.entry.path, position + filled, this.#maxBytes);
      return filled;
    } catch (error) {
      throw rootFault(error, this.entry.path);
    } finally {
      this.#reading -= 1;
      if (this.#isClosed) this.#closeWhenIdle();
    }
  }

  readNow(buffer: Uint8Array, position: number): number {
    try {
      const count = readFully(this.#requireOpen(), buffer, position);
      requireSize(this.entry.path, position + count, this.#maxBytes);
      return count;
    } catch (error) {
      throw rootFault(error, this.entry.path);
    }
  }

  hasChanged(): boolean {
    return !isSameContent(this.#stats, fstatSync(this.#requireOpen(), { bigint: true }));
  }

  close(): void {
    this.#isClosed = true;
    this.#closeWhenIdle();
  }

  /** A descriptor that is closed while a read runs in another thread may by then name another file. */
  #closeWhenIdle(): void {
    if (this.#fd < 0 || this.#reading > 0) return;
    closeSync(this.#fd);
    this.#fd = -1;
  }

  #requireOpen(): number {
    if (this.#isClosed) throw new Error("the file was closed");
    return this.#fd;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close();
  }
}
