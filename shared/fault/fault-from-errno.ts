import type { FaultCode } from "./codes.ts";
import { Fault } from "./fault.ts";

const codeByErrno: Readonly<Record<string, FaultCode>> = {
  ENOENT: "NOT_FOUND",
  ENOTDIR: "NOT_A_DIRECTORY",
  EISDIR: "NOT_A_FILE",
  EEXIST: "ALREADY_EXISTS",
  ENOTEMPTY: "NOT_EMPTY",
  ENOSPC: "DISK_FULL",
  EDQUOT: "DISK_FULL",
  ELOOP: "SYMLINK_REFUSED",
  ENAMETOOLONG: "PATH_INVALID",
};

const words: Readonly<Record<string, string>> = {
  NOT_FOUND: "does not exist",
  NOT_A_DIRECTORY: "is not a folder, or a parent of it is not",
  NOT_A_FILE: "is a folder",
  ALREADY_EXISTS: "exists already",
  NOT_EMPTY: "is a folder that is not empty",
  DISK_FULL: "could not be written: the disk is full",
  SYMLINK_REFUSED: "is a link, or a parent of it is",
  PATH_INVALID: "has a name that is too long for the file system",
};

const hints: Readonly<Record<string, string>> = {
  ENOENT: "see what there is, for a workspace with fairlead files ls",
  ENOTDIR: "see what its parents are, for a workspace with fairlead files stat",
  EISDIR: "name a file in it",
  EEXIST: "choose another name",
  ENOTEMPTY: "remove what is in it first, or all of it with --recursive",
  ENOSPC: "make room on that disk, and repeat the command",
  EDQUOT: "make room in that user's quota, and repeat the command",
  ELOOP: "name the target of the link itself",
  ENAMETOOLONG: "choose a shorter name",
  EACCES: "give the user that the program runs as permission for it",
  EPERM: "give the user that the program runs as permission for it",
  EROFS: "that file system is mounted read only: use another folder",
};

/** The errno word of a Node file system error (`ENOENT` …), or undefined for any other error. */
export function errnoOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" && /^E[A-Z0-9]+$/.test(error.code) ? error.code : undefined;
}

/**
 * A file system error as a Fault that names `what` (a path as the user knows it, never an absolute one of this disk).
 * Errors that are no errno errors come back unchanged.
 */
export function faultFromErrno(error: unknown, what: string): unknown {
  const errno = errnoOf(error);
  if (errno === undefined) return error;
  const code = codeByErrno[errno] ?? "IO_ERROR";
  const said = words[code] ?? `could not be used (${errno})`;
  const hint = hints[errno];
  return new Fault(code, `${what} ${said}`, {
    details: { errno, path: what },
    ...(hint === undefined ? {} : { hint }),
  });
}
