import { realpathSync, renameSync, rmdirSync, unlinkSync } from "node:fs";
import { appendPath, rootPath, type WorkspacePath } from "../../names/workspace-path.ts";
import {
  isKeptName,
  keptNameOf,
  keyOfKept,
  partLifeMs,
  readAsideName,
  readPartKey,
  readStagedName,
  type StageMarker,
} from "../staged-name.ts";
import type { RootContext } from "./context.ts";
import { at, type Descriptor, openFolder, readFolder, statEntry } from "./descriptor.ts";
import { expireEntry, KeptParts } from "./parts.ts";
import { createPause, type Pause } from "./pause.ts";
import { isGone } from "./process-marker.ts";

/** A leftover of another boot or process namespace counts as dead after this time without a change. */
const foreignAfterMs = 24 * 60 * 60 * 1000;

/**
 * Removes staged files, and trees filled aside or attacked, whose process is gone: everywhere below the root, or in its folder alone;
 * gives their number. What somebody may go on with is kept for its time. Folders that cannot be read are left out. Runs in
 * turns beside everything else and ends with the root.
 */
export async function sweep(context: RootContext, where: "below" | "top"): Promise<number> {
  const pause = createPause(context.signal);
  using top = context.start.top.again();
  const sweeping = { own: context.marker, kept: context.kept, pause, isDeep: where === "below" };
  let removed = await sweepFolder(top, { ...sweeping, path: rootPath });
  for (const { path, write } of context.start.trusted) {
    using folder = write ? tolerantly(() => context.start.top.elsewhere(realpathSync(path))) : undefined;
    // Which link leads there is not known: what is kept there is found by the next write.
    if (folder) removed += await sweepFolder(folder, { ...sweeping, kept: new KeptParts(), path: rootPath });
  }
  return removed;
}

interface Sweeping {
  readonly own: StageMarker;
  readonly kept: KeptParts;
  readonly pause: Pause;
  readonly isDeep: boolean;
  /** The folder's path below the root. */
  readonly path: WorkspacePath;
}

async function sweepFolder(folder: Descriptor, sweeping: Sweeping): Promise<number> {
  const { own, pause } = sweeping;
  let removed = 0;
  for (const { name, kind } of tolerantly(() => readFolder(folder)) ?? []) {
    if (typeof name !== "string") continue;
    if (pause.isDue()) await pause.take();
    if (kind === "folder") {
      removed += await sweepChild(folder, name, sweeping);
      continue;
    }
    const marker = kind === "file" ? readStagedName(name) : undefined;
    if (marker && isDead(folder, name, { marker, own })) removed += takeLeftover(folder, name, sweeping);
    else if (isKeptName(name)) removed += knowPart(folder, name, sweeping);
  }
  return removed;
}

/** What a dead process wrote is kept where somebody may go on with it; gives what was removed. */
function takeLeftover(folder: Descriptor, name: string, sweeping: Sweeping): number {
  const key = readPartKey(name);
  if (key === undefined) {
    tolerantly(() => unlinkSync(at(folder, name)));
    return 1;
  }
  tolerantly(() => renameSync(at(folder, name), at(folder, keptNameOf(key))));
  return knowPart(folder, keptNameOf(key), sweeping);
}

function knowPart(folder: Descriptor, name: string, { kept, path }: Sweeping): number {
  if (tolerantly(() => expireEntry(folder, name, Date.now() - partLifeMs)) === "removed") return 1;
  const key = keyOfKept(name);
  if (key !== undefined) kept.add(path, key);
  return 0;
}

async function sweepChild(folder: Descriptor, name: string, sweeping: Sweeping): Promise<number> {
  const marker = readAsideName(name) ?? readStagedName(name);
  const isLeft = marker !== undefined && isDead(folder, name, { marker, own: sweeping.own });
  if (!isLeft && !sweeping.isDeep) return 0;
  using child = tolerantly(() => openFolder(folder, name));
  if (!child) return 0;
  const path = appendPath(sweeping.path, name as WorkspacePath);
  if (!isLeft) return await sweepFolder(child, { ...sweeping, path });
  await empty(child, sweeping.pause);
  tolerantly(() => rmdirSync(at(folder, name)));
  return 1;
}

/** Removes all that a folder holds; links are removed themselves. */
async function empty(folder: Descriptor, pause: Pause): Promise<void> {
  for (const { name, kind } of tolerantly(() => readFolder(folder)) ?? []) {
    if (pause.isDue()) await pause.take();
    if (kind === "folder") {
      using child = tolerantly(() => openFolder(folder, name));
      if (child) await empty(child, pause);
      tolerantly(() => rmdirSync(at(folder, name)));
      continue;
    }
    tolerantly(() => unlinkSync(at(folder, name)));
  }
}

interface Markers {
  readonly marker: StageMarker;
  readonly own: StageMarker;
}

function isDead(folder: Descriptor, name: string, { marker, own }: Markers): boolean {
  const gone = isGone(marker, own);
  if (gone !== undefined) return gone;
  const stats = tolerantly(() => statEntry(folder, name));
  return stats !== undefined && Date.now() - Number(stats.mtimeNs / 1_000_000n) > foreignAfterMs;
}

/** The sweep goes on where it can. */
function tolerantly<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}
