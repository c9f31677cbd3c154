import { rmdirSync, unlinkSync } from "node:fs";
import { readAsideName, readStagedName, type StageMarker } from "../staged-name.ts";
import type { RootContext } from "./context.ts";
import { at, type Descriptor, openFolder, readFolder, reopenFolder, statEntry } from "./descriptor.ts";
import { createPause, type Pause } from "./pause.ts";
import { isGone } from "./process-marker.ts";

/** A leftover of another boot or process namespace counts as dead after this time without a change. */
const foreignAfterMs = 24 * 60 * 60 * 1000;

/**
 * Removes staged files, and trees filled aside, whose process is gone: everywhere below the root, or in its folder alone;
 * gives their number. Folders that cannot be read are left out. Runs in turns beside everything else and ends with the
 * root.
 */
export async function sweep(context: RootContext, where: "below" | "top"): Promise<number> {
  const pause = createPause(context.signal);
  using top = reopenFolder(context.start.top);
  return await sweepFolder(top, { own: context.marker, pause, isDeep: where === "below" });
}

interface Sweeping {
  readonly own: StageMarker;
  readonly pause: Pause;
  readonly isDeep: boolean;
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
    if (!marker || !isDead(folder, name, { marker, own })) continue;
    tolerantly(() => unlinkSync(at(folder, name)));
    removed += 1;
  }
  return removed;
}

async function sweepChild(folder: Descriptor, name: string, sweeping: Sweeping): Promise<number> {
  const marker = readAsideName(name);
  const isLeft = marker !== undefined && isDead(folder, name, { marker, own: sweeping.own });
  if (!isLeft && !sweeping.isDeep) return 0;
  using child = tolerantly(() => openFolder(folder, name));
  if (!child) return 0;
  if (!isLeft) return await sweepFolder(child, sweeping);
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
