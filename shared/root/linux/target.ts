import { type BigIntStats, closeSync, read } from "node:fs";
import { promisify } from "node:util";
import { createDigester, type Digest } from "../../content/digest.ts";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import { Fault } from "../../fault/fault.ts";
import type { WorkspacePath } from "../../names/workspace-path.ts";
import {
  alreadyExists,
  hardlinkRefused,
  linkedTargetRefused,
  notAFile,
  rootFault,
  unsupportedType,
} from "../refusals.ts";
import type { Precondition } from "../root-handle.ts";
import { isNameless, lookUntilNamed, requireFile, type RootContext } from "./context.ts";
import { type Descriptor, kindOf, openEntry, statEntry } from "./descriptor.ts";

const readAsync = promisify(read);
const chunkBytes = 256 * 1024;

/** Where a file is about to be written. */
export interface Target {
  readonly folder: Descriptor;
  readonly name: string;
  readonly path: WorkspacePath;
}

/** What stands at the target: a file that may be replaced, or nothing. Anything else is refused with its code. */
export function inspectTarget(context: RootContext, target: Target): BigIntStats | undefined {
  const stats = statTarget(target);
  if (!stats) return undefined;
  switch (kindOf(stats)) {
    case "link":
      throw linkedTargetRefused(target.path);
    case "folder":
      throw notAFile(target.path);
    case "other":
      throw unsupportedType(target.path);
    case "file":
      if (stats.nlink > 1n && !context.allowHardLinks)
        throw hardlinkRefused(target.path, Number(stats.nlink));
      return stats;
  }
}

function statTarget(target: Target): BigIntStats | undefined {
  try {
    return statEntry(target.folder, target.name);
  } catch (error) {
    throw rootFault(error, target.path);
  }
}

/** A file's digest with the state it had when it was read. */
export interface DigestedTarget {
  readonly stats: BigIntStats;
  readonly digest: Digest;
}

/** Digests the file at the target. Its bytes are read asynchronously: whether it is still that one is asked afterwards. */
export async function digestTarget(
  context: RootContext,
  target: Target,
  signal?: AbortSignal,
): Promise<DigestedTarget | undefined> {
  const opened = openTarget(context, target);
  if (!opened) return undefined;
  const { fd, stats } = opened;
  try {
    const digester = createDigester();
    const buffer = Buffer.allocUnsafe(Math.min(chunkBytes, Math.max(1, Number(stats.size))));
    for (let position = 0; ;) {
      const { bytesRead } = await readAsync(fd, buffer, 0, buffer.length, position);
      if (bytesRead === 0) return { stats, digest: digester.digest() };
      digester.update(buffer.subarray(0, bytesRead));
      position += bytesRead;
      signal?.throwIfAborted();
    }
  } catch (error) {
    throw rootFault(error, target.path);
  } finally {
    closeSync(fd);
  }
}

interface OpenTarget {
  readonly fd: number;
  readonly stats: BigIntStats;
}

function openTarget(context: RootContext, target: Target): OpenTarget | undefined {
  const opened = lookUntilNamed(target.path, () => {
    if (!inspectTarget(context, target)) return "absent";
    return tryOpenTarget(context, target);
  });
  return opened === "absent" ? undefined : opened;
}

/** Undefined when the file that was just seen has lost its name. */
function tryOpenTarget(context: RootContext, target: Target): OpenTarget | undefined {
  try {
    using named = openEntry(target.folder, target.name);
    const stats = named.stat();
    if (isNameless(stats)) return undefined;
    requireFile(context, stats, target.path);
    return { fd: named.openForReading(), stats };
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw rootFault(error, target.path);
  }
}

/** Refuses what a precondition already rules out, knowing only whether a file stands there. */
export function requirePossible(
  precondition: Precondition | undefined,
  stats: BigIntStats | undefined,
  path: WorkspacePath,
): void {
  if (precondition?.kind === "absent" && stats) throw alreadyExists(path);
  if (precondition?.kind !== "match" || stats || precondition.orAbsent === true) return;
  throw conflict(path, precondition.digest, undefined);
}

/** The target is not what the caller last saw. */
export function conflict(path: WorkspacePath, expected: Digest, actual: Digest | undefined): Fault {
  const details = { path, expected, actual: actual ?? "absent" };
  if (actual === undefined) {
    const hint = "look with fairlead files ls; a put writes it anew with --if-match absent";
    return new Fault("CONFLICT", `${path} no longer exists`, { details, hint });
  }
  return new Fault("CONFLICT", `${path} was changed meanwhile`, {
    details,
    hint: "read the file again and repeat with its digest as --if-match",
  });
}
