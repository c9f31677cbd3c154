import { isUtf8 } from "node:buffer";
import { Fault } from "../fault/fault.ts";

declare const workspacePath: unique symbol;

/**
 * A path below the root of a workspace: relative, `/` between its names, no empty, `.` or `..` name, no NUL, well-formed
 * Unicode. The empty string is the root itself. Names are kept byte for byte: nothing is normalised or folded.
 */
export type WorkspacePath = string & { readonly [workspacePath]: true };

/** Whose rules a path is read by. */
export type PathPlatform = "posix" | "windows";

/** What `parseWorkspacePath` takes besides the text. */
export interface ParsePathOptions {
  /** The platform of the node that holds the workspace; `posix` by default. */
  readonly platform?: PathPlatform;
  /** The name of the field the text came from, for `details.field`; `path` by default. */
  readonly field?: string;
  /** Where the text begins in what the user wrote; added to `details.position`. */
  readonly offset?: number;
}

/** Longest path in bytes of UTF-8. */
export const maxPathBytes = 4096;

/** The root of a workspace. */
export const rootPath: WorkspacePath = trusted("");

const driveStart = /^[a-z]:/i;
const windowsForbidden = /[<>:"|?*\p{Cc}]/u;
const windowsDevice = /^(?:con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]|conin\$|conout\$) *(?:\.|$)/i;

/**
 * `text` (or its bytes) as a path of a workspace. Fails with `PATH_INVALID`; `details.field` names the field and
 * `details.position` the first wrong character, counted from 0. A path over 4,096 bytes is `LIMIT_REACHED`.
 * For a `windows` node a backslash separates names too and the result has `/`.
 */
export function parseWorkspacePath(text: string | Uint8Array, options: ParsePathOptions = {}): WorkspacePath {
  const refuse = (at: number, why: string): Fault => {
    const position = at + (options.offset ?? 0);
    return new Fault("PATH_INVALID", `the path ${why} (at character ${position + 1})`, {
      details: { field: options.field ?? "path", position },
      hint: "give a path relative to the workspace, with / between its names",
    });
  };
  const decoded = decode(text);
  if (decoded === undefined) throw refuse(0, "is not valid UTF-8");
  const windows = options.platform === "windows";
  const path = windows ? decoded.replaceAll("\\", "/") : decoded;
  const sizeBytes = Buffer.byteLength(path);
  if (sizeBytes > maxPathBytes) throw tooLong(sizeBytes, options.field ?? "path");
  if (path === "") return rootPath;
  if (path.startsWith("/")) throw refuse(0, "is absolute");
  if (windows && driveStart.test(path)) throw refuse(0, "begins with a drive");
  let position = 0;
  for (const name of path.split("/")) {
    const flaw = findNameFlaw(name, windows);
    if (flaw) throw refuse(position + flaw.offset, flaw.why);
    position += name.length + 1;
  }
  return trusted(path);
}

/** `parseWorkspacePath` as a question. */
export function isWorkspacePath(text: string | Uint8Array, options: ParsePathOptions = {}): boolean {
  try {
    parseWorkspacePath(text, options);
    return true;
  } catch (error) {
    if (error instanceof Fault) return false;
    throw error;
  }
}

/** The path of the entry `name` in the folder `parent`; `name` is checked as a single name. */
export function joinPath(parent: WorkspacePath, name: string, options: ParsePathOptions = {}): WorkspacePath {
  const child = parseWorkspacePath(name, options);
  if (child === "" || child.includes("/")) {
    throw new Fault("PATH_INVALID", "a single name was expected, without a separator", {
      details: { field: options.field ?? "path", position: Math.max(0, child.indexOf("/")) },
    });
  }
  return appendPath(parent, child);
}

/** `below`, which is relative to `parent`, as a path of the workspace. */
export function appendPath(parent: WorkspacePath, below: WorkspacePath): WorkspacePath {
  if (parent === "") return below;
  return below === "" ? parent : trusted(`${parent}/${below}`);
}

/** The folder that holds `path`; the root's is undefined. */
export function parentPath(path: WorkspacePath): WorkspacePath | undefined {
  if (path === "") return undefined;
  return trusted(path.slice(0, Math.max(0, path.lastIndexOf("/"))));
}

/** The last name of `path`; empty for the root. */
export function baseName(path: WorkspacePath): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** The names of `path` from the root down; none for the root. */
export function pathNames(path: WorkspacePath): readonly string[] {
  return path === "" ? [] : path.split("/");
}

/** Whether `path` is `folder` or lies below it, name by name (`root2` is not below `root`). */
export function isBeneath(path: WorkspacePath, folder: WorkspacePath): boolean {
  return folder === "" || path === folder || path.startsWith(`${folder}/`);
}

/** `path` as seen from `folder`, which it must lie beneath. */
export function relativePath(path: WorkspacePath, folder: WorkspacePath): WorkspacePath {
  if (!isBeneath(path, folder)) throw new Error("the path does not lie beneath the folder");
  return folder === "" ? path : trusted(path.slice(folder.length + 1));
}

/** `path` and every folder above it, from itself up to the root. */
export function* pathAndParents(path: WorkspacePath): Generator<WorkspacePath> {
  for (let at: WorkspacePath | undefined = path; at !== undefined; at = parentPath(at)) yield at;
}

/** The rules of Node's platform name (`process.platform`, or what a node reports). */
export function toPathPlatform(platform: string): PathPlatform {
  return platform === "win32" || platform === "windows" ? "windows" : "posix";
}

interface NameFlaw {
  readonly offset: number;
  readonly why: string;
}

function findNameFlaw(name: string, windows: boolean): NameFlaw | undefined {
  if (name === "") return { offset: 0, why: "has an empty name" };
  if (name === ".") return { offset: 0, why: "has the name ." };
  if (name === "..") return { offset: 0, why: "has the name .." };
  const nul = name.indexOf("\0");
  if (nul >= 0) return { offset: nul, why: "contains NUL" };
  return windows ? findWindowsFlaw(name) : undefined;
}

function findWindowsFlaw(name: string): NameFlaw | undefined {
  const forbidden = windowsForbidden.exec(name);
  if (forbidden) return { offset: forbidden.index, why: "has a character that Windows forbids in names" };
  if (windowsDevice.test(name)) return { offset: 0, why: "has the name of a Windows device" };
  if (/[. ]$/.test(name)) return { offset: name.length - 1, why: "has a name that ends in a dot or a space" };
  return undefined;
}

function decode(text: string | Uint8Array): string | undefined {
  if (typeof text === "string") return text.isWellFormed() ? text : undefined;
  return isUtf8(text)
    ? Buffer.from(text.buffer, text.byteOffset, text.byteLength).toString("utf8")
    : undefined;
}

function tooLong(actual: number, field: string): Fault {
  return new Fault("LIMIT_REACHED", `the path has ${actual} bytes; at most ${maxPathBytes} are allowed`, {
    details: { field, limit: maxPathBytes, actual },
  });
}

function trusted(path: string): WorkspacePath {
  return path as WorkspacePath;
}
