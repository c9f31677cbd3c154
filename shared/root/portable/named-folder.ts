import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  realpathSync,
  statSync,
  unlinkSync,
} from "node:fs";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import { Fault } from "../../fault/fault.ts";
import { below, type Descriptor, type EntryName, showName } from "../linux/descriptor.ts";
import { pathChanged } from "../refusals.ts";

const { O_CREAT, O_DIRECTORY, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = constants;
/** A file that is replaced again and again is opened so often. */
const maxOpens = 256;
/** What was opened is compared so often with what stands at its name: each time another swap would have to fall between. */
const comparisons = 3;
const isWindows = process.platform === "win32";

/** The folder at an absolute path, links in it resolved: for roots only. */
export function openNamedTop(absolutePath: string): Descriptor {
  const realPath = realpathSync.native(absolutePath);
  const stats = statSync(realPath, { bigint: true });
  if (!stats.isDirectory()) throw noFolder(realPath);
  return new Named({ realPath, stats, shown: "" });
}

interface NamedParts {
  readonly realPath: string | Buffer;
  readonly stats: BigIntStats;
  /** Relative to the top. */
  readonly shown: string;
  /** The file itself, opened for reading, where it is one and may be read. */
  readonly fd?: number | undefined;
}

/**
 * A folder or entry that is held by its name and by which one it was (its device and inode). Before each use the one at its
 * name is compared with that, and after an opening what was opened. Between the two somebody else on the machine may swap a
 * folder above it: best effort, where the platform gives no way to open a name beneath an open folder.
 */
class Named implements Descriptor {
  readonly #realPath: string | Buffer;
  readonly #shown: string;
  #stats: BigIntStats;
  #fd: number | undefined;
  #isOpen = true;

  constructor({ realPath, stats, shown, fd }: NamedParts) {
    this.#realPath = realPath;
    this.#stats = stats;
    this.#shown = shown;
    this.#fd = fd;
  }

  get path(): string {
    this.#requireInPlace();
    return this.realPath;
  }

  get pathForOthers(): string {
    return this.path;
  }

  get realPath(): string {
    if (typeof this.#realPath === "string") return this.#realPath;
    throw new Fault("PATH_INVALID", `${this.#shown} has a name that is no UTF-8`, {
      details: { path: this.#shown },
      hint: "rename it on its machine",
    });
  }

  stat(): BigIntStats {
    if (this.#fd !== undefined) return fstatSync(this.#fd, { bigint: true });
    const now = lstatSync(this.#realPath, { bigint: true, throwIfNoEntry: false });
    if (now && isSame(now, this.#stats)) this.#stats = now;
    return this.#stats;
  }

  enter(name: EntryName): Descriptor {
    const path = this.#at(name);
    const stats = lstatSync(path, { bigint: true });
    this.#requireInPlace();
    if (!stats.isDirectory()) throw noFolder(showName(name));
    return new Named({ realPath: path, stats, shown: this.#shownAt(name) });
  }

  hold(name: EntryName): Descriptor {
    const path = this.#at(name);
    for (let opens = 0; opens < maxOpens; opens += 1) {
      const stats = lstatSync(path, { bigint: true });
      const parts = { realPath: path, stats, shown: this.#shownAt(name) };
      if (!stats.isFile()) {
        this.#requireInPlace();
        return new Named(parts);
      }
      const fd = tryOpen(path);
      if (fd === "refused") {
        this.#requireInPlace();
        return new Named(parts);
      }
      if (fd !== "replaced") {
        if (this.#isStill(path, fd)) return new Named({ ...parts, fd });
        closeSync(fd);
      }
      this.#requireInPlace();
    }
    throw pathChanged(this.#shownAt(name));
  }

  again(): Descriptor {
    return new Named({ realPath: this.path, stats: this.#stats, shown: this.#shown });
  }

  elsewhere(realPath: string): Descriptor {
    const stats = lstatSync(realPath, { bigint: true });
    if (!stats.isDirectory()) throw noFolder(realPath);
    return new Named({ realPath, stats, shown: this.#shown });
  }

  openForReading(): number {
    this.#requireOpen();
    const fd = this.#fd ?? openSync(this.#realPath, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
    this.#fd = undefined;
    if (isSame(fstatSync(fd, { bigint: true }), this.#stats)) return fd;
    closeSync(fd);
    throw pathChanged(this.#shown);
  }

  open(name: EntryName, flags: number, mode?: number): number {
    const isMade = (flags & O_CREAT) !== 0;
    for (let opens = 0; opens < (isMade ? 1 : maxOpens); opens += 1) {
      const path = this.#at(name);
      const fd = openSync(path, flags, mode);
      if (this.#isStill(path, fd)) return fd;
      closeSync(fd);
      // What was made just now is nobody's yet, wherever it was made.
      if (isMade) tryUnlink(path);
    }
    throw pathChanged(this.#shownAt(name));
  }

  openForSync(): number | undefined {
    // Windows syncs no folder: the names are as durable as its own journal makes them.
    return isWindows ? undefined : openSync(this.path, O_RDONLY | O_DIRECTORY);
  }

  [Symbol.dispose](): void {
    this.#isOpen = false;
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  #shownAt(name: EntryName): string {
    return this.#shown === "" ? showName(name) : `${this.#shown}/${showName(name)}`;
  }

  #at(name: EntryName): string | Buffer {
    return below(this.path, name);
  }

  /** Whether the file that was opened is the one of that name, in this very folder. */
  #isStill(path: string | Buffer, fd: number): boolean {
    const opened = fstatSync(fd, { bigint: true });
    for (let at = 0; at < comparisons; at += 1) {
      const named = lstatSync(path, { bigint: true, throwIfNoEntry: false });
      if (!named || !isSame(named, opened) || !this.#isInPlace()) return false;
    }
    return true;
  }

  #isInPlace(): boolean {
    const now = lstatSync(this.#realPath, { bigint: true, throwIfNoEntry: false });
    return now !== undefined && isSame(now, this.#stats);
  }

  #requireInPlace(): void {
    this.#requireOpen();
    if (!this.#isInPlace()) throw pathChanged(this.#shown);
  }

  #requireOpen(): void {
    if (!this.#isOpen) throw new Error("the descriptor was closed");
  }
}

/** `refused` where it may not be read: who only looks at it need not. */
function tryOpen(path: string | Buffer): number | "refused" | "replaced" {
  try {
    return openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === "EACCES" || errno === "EPERM") return "refused";
    if (errno === "ENOENT" || errno === "ELOOP" || errno === "ENOTDIR") return "replaced";
    throw error;
  }
}

function tryUnlink(path: string | Buffer): void {
  try {
    unlinkSync(path);
  } catch {
    // It is not at that name now: the sweep finds what lies in the root.
  }
}

function isSame(a: BigIntStats, b: BigIntStats): boolean {
  return a.ino === b.ino && a.dev === b.dev && (a.mode & typeBits) === (b.mode & typeBits);
}

const typeBits = BigInt(constants.S_IFMT);

function noFolder(shown: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${shown} is no folder`), { code: "ENOTDIR" });
}
