import { faultFromErrno } from "../fault/fault-from-errno.ts";
import { Fault } from "../fault/fault.ts";

/** A path as messages show it. */
function shown(path: string): string {
  return path === "" ? "the workspace's root" : path;
}

/** A link where none is followed. */
export function symlinkRefused(linkPath: string): Fault {
  return new Fault("SYMLINK_REFUSED", `${shown(linkPath)} is a link, which this workspace does not follow`, {
    details: { path: linkPath },
    hint: "set followSymlinks for the workspace on the node to follow links that stay inside it",
  });
}

/** A link at the end of a path that is to be written: never written through. */
export function linkedTargetRefused(linkPath: string): Fault {
  return new Fault("SYMLINK_REFUSED", `${shown(linkPath)} is a link, and no link is written through`, {
    details: { path: linkPath },
    hint: "name the file that the link points to: followSymlinks is for reading, and for folders on the way",
  });
}

/** Links that lead to each other, or too many of them. */
export function symlinkLoop(linkPath: string): Fault {
  return new Fault("SYMLINK_REFUSED", `${shown(linkPath)} leads through more than 40 links`, {
    details: { path: linkPath, reason: "loop" },
    hint: "mend the links, or name their target itself",
  });
}

/** A link that leads out of the folder. */
export function pathEscapes(linkPath: string): Fault {
  return new Fault("PATH_ESCAPES", `the link ${shown(linkPath)} leads out of the workspace`, {
    details: { path: linkPath },
    hint: "name the folder it leads to in allowSymlinkTargets of the workspace on the node, or export it as a workspace of its own: fairlead node workspace add NAME DIR",
  });
}

/** A change behind a link that leads into a folder which may only be read. */
export function targetNotWritable(linkPath: string): Fault {
  return new Fault("POLICY_DENIED", `what the link ${shown(linkPath)} leads to may only be read`, {
    details: { path: linkPath, rule: "allowSymlinkTargets", side: "node" },
    hint: "set write: true for that folder in allowSymlinkTargets of the workspace on the node",
  });
}

/** A file with more than one name. */
export function hardlinkRefused(path: string, links: number): Fault {
  return new Fault(
    "HARDLINK_REFUSED",
    `${shown(path)} has ${links} names, which this workspace does not allow`,
    {
      details: { path, actual: links },
      hint: "set allowHardLinks for the workspace on the node, or copy the file",
    },
  );
}

/** A device, socket or FIFO. */
export function unsupportedType(path: string): Fault {
  return new Fault("UNSUPPORTED_FILE_TYPE", `${shown(path)} is a device, a socket or a FIFO`, {
    details: { path },
    hint: "only files, folders and links are served",
  });
}

/** Something else where a file is needed. */
export function notAFile(path: string): Fault {
  return new Fault("NOT_A_FILE", `${shown(path)} is a folder`, {
    details: { path },
    hint: "name a file in it, or the whole tree: fairlead files ls, get and put take folders",
  });
}

/** Something else where a folder is needed. */
export function notAFolder(path: string): Fault {
  return new Fault("NOT_A_DIRECTORY", `${shown(path)} is no folder`, {
    details: { path },
    hint: "see what it is with fairlead files stat",
  });
}

const notFoundHint = "see what there is with fairlead files ls";

/** Nothing there. */
export function notFound(path: string): Fault {
  return new Fault("NOT_FOUND", `${shown(path)} does not exist`, { details: { path }, hint: notFoundHint });
}

/** Something there already. */
export function alreadyExists(path: string): Fault {
  return new Fault("ALREADY_EXISTS", `${shown(path)} exists already`, {
    details: { path },
    hint: "choose another name; to replace a file: fairlead files put --if-match any",
  });
}

/** The path led elsewhere a moment ago. */
export function pathChanged(path: string): Fault {
  return new Fault("PATH_CHANGED", `${shown(path)} was replaced while it was used`, {
    details: { path },
    hint: "repeat the command",
  });
}

/** What a file held was changed while it was read: what came is no content that it ever had. */
export function changedWhileRead(path: string): Fault {
  return new Fault("INTEGRITY_FAILURE", `${shown(path)} was changed while it was read`, {
    details: { path },
    hint: "repeat the command",
  });
}

/** An operation that the root itself does not take. */
export function rootRefused(what: string): Fault {
  return new Fault("INVALID_ARGUMENT", `the workspace's root cannot be ${what}`, {
    details: { field: "path" },
    hint: "name an entry below the root",
  });
}

/** A file over the limit. */
export function fileTooLarge(path: string, limit: number, actual: number): Fault {
  return new Fault("TOO_LARGE", `${shown(path)} has ${actual} bytes; at most ${limit} are allowed`, {
    details: { path, limit, actual },
    hint: "raise maxFileBytes for the workspace on the node",
  });
}

/** A tree of more entries than the limit. */
export function tooManyEntries(limit: number, actual: number): Fault {
  return new Fault("LIMIT_REACHED", `the tree has more than ${limit} entries`, {
    details: { limit, actual },
    hint: "begin further down, or raise limits.treeEntries on the node",
  });
}

/** An entry of a tree, or none that is named, that lies deeper than the limit. */
export function treeTooDeep(limit: number, actual: number, path?: string): Fault {
  const where = path === undefined ? "" : ` at ${path}`;
  return new Fault("LIMIT_REACHED", `the tree is more than ${limit} folders deep${where}`, {
    details: { ...(path === undefined ? {} : { path }), limit, actual },
    hint: "begin further down, or raise limits.treeDepth on the node",
  });
}

/** A path of a tree that is longer, in bytes, than any path may be. */
export function treePathTooLong(limit: number, actual: number): Fault {
  return new Fault("LIMIT_REACHED", `a path of the tree has ${actual} bytes; at most ${limit} are allowed`, {
    details: { limit, actual },
    hint: "begin further down, or give its folders shorter names",
  });
}

/** A file system error about `path`, with the descriptor paths of the walk left out. */
export function rootFault(error: unknown, path: string): unknown {
  return faultFromErrno(error, shown(path));
}
