import { lstatSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { NameFolding } from "../../names/folded-name.ts";
import type { Descriptor } from "../linux/descriptor.ts";
import { openBeneath } from "../linux/linux-root.ts";
import { foldingByVolume } from "../linux/volume.ts";
import type { RootHandle, RootOptions } from "../root-handle.ts";
import { openNamedTop } from "./named-folder.ts";

/**
 * Opens a root where the kernel gives no way to open a name beneath an open folder: names are checked before and after each
 * use. On Windows links are never followed.
 */
export function openPortableRoot(absolutePath: string, options: RootOptions): RootHandle {
  const door = { containment: "best_effort", openTop: openNamedTop, foldingOf } as const;
  return openBeneath(door, absolutePath, followsLinks ? options : withoutLinks(options));
}

// A link's text there names drives and other volumes, and so do junctions.
const followsLinks = process.platform !== "win32";

function withoutLinks(options: RootOptions): RootOptions {
  return { ...options, followSymlinks: false, trusted: [] };
}

function foldingOf(top: Descriptor): NameFolding {
  if (process.platform === "linux") return foldingByVolume(top);
  // Apple's volumes take composed and decomposed names for one, whatever they do with case.
  return { case: ignoresCase(top.realPath), form: process.platform === "darwin" };
}

/** Asked of the folder's own name; where that tells nothing the volume is taken for one that makes no difference. */
function ignoresCase(realPath: string): boolean {
  const name = basename(realPath);
  const swapped = name === name.toUpperCase() ? name.toLowerCase() : name.toUpperCase();
  if (swapped === name) return true;
  try {
    const own = lstatSync(realPath, { bigint: true });
    const other = lstatSync(join(dirname(realPath), swapped), { bigint: true, throwIfNoEntry: false });
    return other !== undefined && own.ino === other.ino && own.dev === other.dev;
  } catch {
    // A process under permissions may look at the folder, and at nothing beside it.
    return true;
  }
}
