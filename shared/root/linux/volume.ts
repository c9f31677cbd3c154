import { statfsSync } from "node:fs";
import type { NameFolding } from "../../names/folded-name.ts";
import type { Descriptor } from "./descriptor.ts";

/** FAT, exFAT, CIFS, SMB2, HFS+: volumes that take `A` and `a` for one. */
const caseIgnoring = new Set([0x4d44, 0x2011bab0, 0xff534d42, 0xfe534d42, 0x482b]);
/** HFS+: it keeps every name decomposed. */
const formIgnoring = new Set([0x482b]);

/** What the volume of a folder does not tell apart, by the number that Linux has for its kind. */
export function foldingByVolume(folder: Descriptor): NameFolding {
  const type = tryVolumeType(folder.path) ?? 0;
  return { case: caseIgnoring.has(type), form: formIgnoring.has(type) };
}

/** The number of the kind of volume; undefined where it is not told. */
export function tryVolumeType(path: string): number | undefined {
  try {
    // Some types are reported sign-extended.
    return statfsSync(path).type >>> 0;
  } catch {
    return undefined;
  }
}
