import { type BigIntStats, symlinkSync, unlinkSync } from "node:fs";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import { Fault } from "../../fault/fault.ts";
import type { WorkspacePath } from "../../names/workspace-path.ts";
import { alreadyExists, pathChanged, rootFault } from "../refusals.ts";
import type { Entry } from "../root-handle.ts";
import { announce, foundAbove, foundAt, type RootContext, toEntry } from "./context.ts";
import { at, kindOf, readLink, statEntry } from "./descriptor.ts";
import type { Movement } from "./move.ts";
import { openFile } from "./open-file.ts";
import { findPlace, type Place } from "./place.ts";
import { startStage } from "./stage-write.ts";

const copyBytes = 1024 * 1024;

/**
 * Moves a file or a link to another file system: copied, and published as a whole, before the source goes. The source goes
 * only while it is what was copied; else it stays, and the fault is `PATH_CHANGED` with `details.from` and `details.to`.
 */
export async function moveAcross(context: RootContext, movement: Movement): Promise<Entry> {
  const { from, to } = movement;
  const found = look(context, from);
  if (!found) throw pathChanged(from);
  if (kindOf(found) === "folder") throw folderAcross(from, to);
  if (kindOf(found) === "link") copyLink(context, movement, toEntry(from, found));
  else await copyFile(context, movement, toEntry(from, found));
  using target = findPlace(context.start, to, "keep");
  const stats = statEntry(target.folder, nameOf(target));
  if (!stats) throw pathChanged(to);
  return toEntry(to, stats, { canonicalPath: target.canonicalPath });
}

function look(context: RootContext, path: WorkspacePath): BigIntStats | undefined {
  using place = findPlace(context.start, path, "keep");
  return statEntry(place.folder, nameOf(place));
}

function nameOf({ name }: Place): string {
  if (name === undefined) throw new Error("the root itself is never moved");
  return name;
}

async function copyFile(context: RootContext, movement: Movement, found: Entry): Promise<void> {
  const { from, to, checkFrom, checkTo, signal } = movement;
  await using file = openFile(context, from, checkFrom ? { check: checkFrom } : {});
  const copied = file.entry;
  if (!isSame(copied, found)) throw pathChanged(from);
  const precondition = { kind: "absent" } as const;
  const check = checkTo ? { check: checkTo } : {};
  await using stage = await startStage(context, to, {
    mode: copied.mode & 0o777,
    mtimeNs: copied.mtimeNs,
    createParents: false,
    announcedBytes: copied.sizeBytes,
    precondition,
    ...check,
  });
  const buffer = Buffer.allocUnsafe(Math.min(copyBytes, copied.sizeBytes + 1));
  for (;;) {
    signal?.throwIfAborted();
    const count = await file.read(buffer, stage.sizeBytes);
    if (count === 0) break;
    await stage.write(buffer.subarray(0, count));
  }
  if (file.hasChanged()) throw changedMeanwhile(from, to, "unattempted");
  await stage.commit({ precondition, ...check, ...(signal ? { signal } : {}) });
  takeAway(context, movement, copied);
}

function copyLink(context: RootContext, movement: Movement, found: Entry): void {
  const { from, to, checkTo } = movement;
  {
    using source = findPlace(context.start, from, "keep");
    using target = findPlace(context.start, to, "keep");
    const text = readText(source, from);
    checkTo?.(target.canonicalPath, foundAbove(target.folder.stat()));
    announce(context, "make-link", to);
    try {
      symlinkSync(text, at(target.folder, nameOf(target)));
    } catch (error) {
      if (errnoOf(error) === "EEXIST") throw alreadyExists(to);
      throw rootFault(error, to);
    }
  }
  takeAway(context, movement, found);
}

function readText(source: Place, from: WorkspacePath): string {
  let text: string | undefined;
  try {
    text = readLink(source.folder, nameOf(source));
  } catch (error) {
    // No link any more.
    if (errnoOf(error) !== "EINVAL") throw rootFault(error, from);
  }
  if (text !== undefined) return text;
  throw pathChanged(from);
}

/** One turn from the look to the end of the source. */
function takeAway(context: RootContext, { from, to, checkFrom }: Movement, copied: Entry): void {
  using place = findPlace(context.start, from, "keep");
  announce(context, "move", from);
  const name = nameOf(place);
  const now = statEntry(place.folder, name);
  if (!now || !isSame(toEntry(from, now), copied)) throw changedMeanwhile(from, to, "committed");
  checkFrom?.(place.canonicalPath, foundAt(now));
  try {
    unlinkSync(at(place.folder, name));
  } catch (error) {
    throw rootFault(error, from);
  }
}

function isSame(a: Entry, b: Entry): boolean {
  const isThing = a.kind === b.kind && a.inode === b.inode && a.device === b.device;
  return isThing && a.sizeBytes === b.sizeBytes && a.mtimeNs === b.mtimeNs && a.ctimeNs === b.ctimeNs;
}

function changedMeanwhile(from: string, to: string, publication: "unattempted" | "committed"): Fault {
  const left =
    publication === "committed"
      ? `what was there before stands at ${to}, and what is there now was left`
      : `nothing stands at ${to}`;
  return new Fault("PATH_CHANGED", `${from} was changed while it was moved to ${to}: ${left}`, {
    details: { path: from, from, to, publication },
    hint: "look at both with fairlead files stat",
  });
}

function folderAcross(from: string, to: string): Fault {
  return new Fault("IO_ERROR", `${to} lies on another file system than the folder ${from}`, {
    details: { path: from, from, to, errno: "EXDEV" },
    hint: "move the files in it, or get it and put it there",
  });
}
