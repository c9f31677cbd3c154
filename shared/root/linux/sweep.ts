import { unlinkSync } from "node:fs";
import { readStagedName, type StageMarker } from "../staged-name.ts";
import type { RootContext } from "./context.ts";
import { at, type Descriptor, openFolder, readFolder, reopenFolder, statEntry } from "./descriptor.ts";
import { createPause, type Pause } from "./pause.ts";
import { isGone } from "./process-marker.ts";

/** A leftover of another boot or process namespace counts as dead after this time without a change. */
const foreignAfterMs = 24 * 60 * 60 * 1000;

/**
 * Removes staged files whose process is gone, everywhere below the root; gives their number. Folders that cannot be
 * read are left out. Runs in turns beside everything else and ends with the root.
 */
export async function sweep(context: RootContext): Promise<number> {
  const pause = createPause(context.signal);
  using top = reopenFolder(context.start.top);
  return await sweepFolder(top, context.marker, pause);
}

async function sweepFolder(folder: Descriptor, own: StageMarker, pause: Pause): Promise<number> {
  let removed = 0;
  for (const { name, kind } of tolerantly(() => readFolder(folder)) ?? []) {
    if (typeof name !== "string") continue;
    if (pause.isDue()) await pause.take();
    if (kind === "folder") {
      using child = tolerantly(() => openFolder(folder, name));
      if (child) removed += await sweepFolder(child, own, pause);
      continue;
    }
    const marker = kind === "file" ? readStagedName(name) : undefined;
    if (!marker || !isDead(folder, name, { marker, own })) continue;
    tolerantly(() => unlinkSync(at(folder, name)));
    removed += 1;
  }
  return removed;
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
