import { isUtf8 } from "node:buffer";
import { type BigIntStats, constants, lstatSync, readdirSync, readlinkSync } from "node:fs";
import { errnoOf } from "../../fault/fault-from-errno.ts";

/**
 * Calls relative to a folder that is held: through the kernel on Linux, by its name and identity elsewhere. A name must be a
 * single one: each function here refuses anything else, so that no caller can walk with it.
 */

/** A name of an entry: text, or the bytes themselves where they are no UTF-8. */
export type EntryName = string | Buffer;

const { O_NOFOLLOW, O_RDONLY, O_RDWR, O_NONBLOCK, O_NOCTTY, O_CREAT, O_EXCL } = constants;

/** A folder, or an entry of one, that is held and not yet read; let go with its scope. */
export interface Descriptor extends Disposable {
  /**
   * The path under which calls of this turn reach it. One that was let go has none; one that is held by its name fails
   * with `PATH_CHANGED` where another stands there by now.
   */
  readonly path: string;
  /** The path for another process of this user. */
  readonly pathForOthers: string;
  /** Its absolute path, no link in it. */
  readonly realPath: string;
  /** Its state now; of one that is nowhere any more, the last that is known. */
  stat(): BigIntStats;
  /** The folder `name` in it; ENOTDIR for a link as for a file. */
  enter(name: EntryName): Descriptor;
  /** The entry `name` in it itself, a link included; nothing is read. */
  hold(name: EntryName): Descriptor;
  /** The same folder once more. */
  again(): Descriptor;
  /** A folder elsewhere, by its canonical absolute path; ENOTDIR when a link stands there by now. */
  elsewhere(realPath: string): Descriptor;
  /** Opens this very file for reading, whatever its name leads to now. */
  openForReading(): number;
  /** Opens the entry `name` in it with these flags, never through a link; fails where it did not open that one. */
  open(name: EntryName, flags: number, mode?: number): number;
  /** Opens it so that it can be synced; undefined where that is not done. */
  openForSync(): number | undefined;
}

/** The path of `name` in `folder`, for calls that do not follow a link at the end. */
export function at(folder: Descriptor, name: EntryName): string | Buffer {
  return below(folder.path, name);
}

/** The path of the entry `name` in the folder at a path. */
export function below(folder: string, name: EntryName): string | Buffer {
  if (typeof name === "string") {
    if (name === "" || name === "." || name === ".." || forbidden.test(name)) {
      throw new Error("an entry was named by what is no single name");
    }
    return `${folder}/${name}`;
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
  return Buffer.concat([Buffer.from(`${folder}/`), name]);
}

// A name that is several on Windows, or a stream of a file.
const forbidden = process.platform === "win32" ? /[/\0\\:]/ : /[/\0]/;
const dot = Buffer.from(".");
const dotDot = Buffer.from("..");

/** The folder `name`; ENOTDIR for a link as for a file. */
export function openFolder(folder: Descriptor, name: EntryName): Descriptor {
  return folder.enter(name);
}

/** The entry `name` itself, a link included; nothing is opened for reading. */
export function openEntry(folder: Descriptor, name: EntryName): Descriptor {
  return folder.hold(name);
}

/**
 * Opens what its folder has just listed as a file, for reading and without waiting; undefined for a link. What was
 * opened must be looked at before it is read: it may be another thing by now.
 */
export function tryOpenFile(folder: Descriptor, name: string): number | undefined {
  try {
    return folder.open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
  } catch (error) {
    if (errnoOf(error) === "ELOOP") return undefined;
    throw error;
  }
}

/** Makes the new file `name` and opens it for writing; EEXIST when there is anything. */
export function createFile(folder: Descriptor, name: string): number {
  return folder.open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY, 0o600);
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
