import { isUtf8 } from "node:buffer";
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readdirSync,
  readlinkSync,
} from "node:fs";
import { errnoOf } from "../../fault/fault-from-errno.ts";

/**
 * Calls relative to an open folder. Node has no `openat`; on Linux `/proc/self/fd/N/name` is the same, since the kernel
 * resolves N through the descriptor. A name must be a single one: each function here refuses anything else, so that no
 * caller can walk with it.
 */

/** A name of an entry: text, or the bytes themselves where they are no UTF-8. */
export type EntryName = string | Buffer;

// Linux's O_PATH, which Node's constants leave out: a descriptor that only names a thing and runs no device's open.
const oPath = 0o10000000;
const { O_NOFOLLOW, O_DIRECTORY, O_RDONLY, O_RDWR, O_NONBLOCK, O_NOCTTY, O_CREAT, O_EXCL } = constants;

/** An open folder or file that only names it (`O_PATH`); closed with its scope. */
export class Descriptor implements Disposable {
  readonly fd: number;
  #isOpen = true;

  constructor(fd: number) {
    this.fd = fd;
  }

  /** The path under which the kernel knows it. A closed one has none: its number may mean another file by now. */
  get path(): string {
    if (!this.#isOpen) throw new Error("the descriptor was closed");
    return `/proc/self/fd/${this.fd}`;
  }

  /** Its state now. */
  stat(): BigIntStats {
    return fstatSync(this.fd, { bigint: true });
  }

  [Symbol.dispose](): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    closeSync(this.fd);
  }
}

/** The path of `name` in `folder`, for calls that do not follow a link at the end. */
export function at(folder: Descriptor, name: EntryName): string | Buffer {
  if (typeof name === "string") {
    if (name === "" || name === "." || name === ".." || name.includes("/") || name.includes("\0")) {
      throw new Error("an entry was named by what is no single name");
    }
    return `${folder.path}/${name}`;
  }
  if (
    name.length === 0 ||
    name.includes(0x2f) ||
    name.includes(0) ||
    name.equals(dot) ||
    name.equals(dotDot)
  ) {
    throw new Error("an entry was named by what is no single name");
  }
  return Buffer.concat([Buffer.from(`${folder.path}/`), name]);
}

const dot = Buffer.from(".");
const dotDot = Buffer.from("..");

/** The folder at an absolute path, links in it resolved: for roots only. */
export function openTop(absolutePath: string): Descriptor {
  return new Descriptor(openSync(absolutePath, oPath | O_DIRECTORY));
}

/** The folder at a canonical absolute path; ENOTDIR when a link stands there by now. */
export function openTrusted(realPath: string): Descriptor {
  return new Descriptor(openSync(realPath, oPath | O_DIRECTORY | O_NOFOLLOW));
}

/** The folder `name`; ENOTDIR for a link as for a file. */
export function openFolder(folder: Descriptor, name: EntryName): Descriptor {
  return new Descriptor(openSync(at(folder, name), oPath | O_DIRECTORY | O_NOFOLLOW));
}

/** The entry `name` itself, a link included; nothing is opened for reading. */
export function openEntry(folder: Descriptor, name: EntryName): Descriptor {
  return new Descriptor(openSync(at(folder, name), oPath | O_NOFOLLOW));
}

/** The same folder once more, under a descriptor of its own. */
export function reopenFolder(folder: Descriptor): Descriptor {
  return new Descriptor(openSync(folder.path, oPath | O_DIRECTORY));
}

/** Opens for reading the file that `entry` names: exactly that one, whatever its name leads to now. */
export function openForReading(entry: Descriptor): number {
  return openSync(entry.path, O_RDONLY | O_NONBLOCK | O_NOCTTY);
}

/**
 * Opens what its folder has just listed as a file, for reading and without waiting; undefined for a link. What was
 * opened must be looked at before it is read: it may be another thing by now.
 */
export function tryOpenFile(folder: Descriptor, name: string): number | undefined {
  try {
    return openSync(at(folder, name), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  } catch (error) {
    if (errnoOf(error) === "ELOOP") return undefined;
    throw error;
  }
}

/** Opens `folder` so that it can be synced. */
export function openForSync(folder: Descriptor): number {
  return openSync(folder.path, O_RDONLY | O_DIRECTORY);
}

/** Makes the new file `name` and opens it for writing; EEXIST when there is anything. */
export function createFile(folder: Descriptor, name: string): number {
  return openSync(at(folder, name), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY, 0o600);
}

/** State of the entry `name` itself; undefined when there is none. */
export function statEntry(folder: Descriptor, name: EntryName): BigIntStats | undefined {
  return lstatSync(at(folder, name), { bigint: true, throwIfNoEntry: false });
}

/** Where the link `name` points to; undefined when its text is no UTF-8. */
export function readLink(folder: Descriptor, name: EntryName): string | undefined {
  const bytes = readlinkSync(at(folder, name), "buffer");
  return isUtf8(bytes) ? bytes.toString("utf8") : undefined;
}

/** A name with what the folder itself says of its kind. */
export interface NamedEntry {
  readonly name: EntryName;
  readonly kind: "file" | "folder" | "link" | "other";
}

/** The entries of `folder`, unordered. */
export function readFolder(folder: Descriptor): NamedEntry[] {
  const entries = readdirSync(folder.path, { withFileTypes: true });
  // Bytes that are no UTF-8 were read as U+FFFD, which may also stand in a name by itself: the bytes decide.
  if (!entries.some((entry) => entry.name.includes("\ufffd"))) {
    return entries.map((entry) => ({ name: entry.name, kind: kindOf(entry) }));
  }
  return readdirSync(folder.path, { withFileTypes: true, encoding: "buffer" }).map((entry) => ({
    name: isUtf8(entry.name) ? entry.name.toString("utf8") : entry.name,
    kind: kindOf(entry),
  }));
}

interface Kinded {
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
}

/** The kind of a directory entry or of a state. */
export function kindOf(thing: Kinded): NamedEntry["kind"] {
  if (thing.isFile()) return "file";
  if (thing.isDirectory()) return "folder";
  return thing.isSymbolicLink() ? "link" : "other";
}

/** A name as text: bytes that are no UTF-8 as `\xNN`. */
export function showName(name: EntryName): string {
  if (typeof name === "string") return name;
  return [...name]
    .map((byte) =>
      byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, "0")}`,
    )
    .join("");
}
