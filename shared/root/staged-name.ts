import { randomBytes } from "node:crypto";

/**
 * Names of files that are being written: `.fairlead-stage-<boot>-<namespace>-<process id>-<start time>-<random>`, so that a
 * later process can tell a leftover of a dead one from the work of a living one. Trees that are filled aside are called
 * `.fairlead-part-…` in the same way. A file that can go on after it was cut off has its key behind that, and
 * `.fairlead-stage-kept-<key>` is what is kept of it until somebody does.
 */

/** A part that nobody goes on with is kept for so long, in milliseconds. */
export const partLifeMs: number = 24 * 60 * 60 * 1000;

/** Who stages: this process, told from all others of this machine and of earlier boots. */
export interface StageMarker {
  /** First 8 hex digits of the boot's id. */
  readonly boot: string;
  /** Number of the process namespace: the same process id means another process in another one. */
  readonly namespace: string;
  readonly pid: number;
  /** Start time of the process in clock ticks since boot. */
  readonly startTicks: string;
}

const prefix = ".fairlead-stage-";
const asidePrefix = ".fairlead-part-";
const keptPrefix = `${prefix}kept-`;
const shape =
  /^\.fairlead-(stage|part)-([0-9a-f]{8})-([0-9]+)-([0-9]+)-([0-9]+)-[0-9a-f]{12}(?:-([0-9a-f]{32}))?$/;
const keptShape = /^\.fairlead-stage-kept-([0-9a-f]{32})$/;

/** Whether `name` is kept for staged files; no entry of that name is ever shown or taken. */
export function isStagedName(name: string): boolean {
  return name.startsWith(prefix);
}

/** A new name for a file staged by `marker`; with the key (32 hex digits) of a part that may be kept of it. */
export function createStagedName(marker: StageMarker, key?: string): string {
  const name = `${frontOf(prefix, marker)}${randomBytes(6).toString("hex")}`;
  return key === undefined ? name : `${name}-${key}`;
}

/** The name of what is kept under `key`, 32 hex digits. */
export function keptNameOf(key: string): string {
  return `${keptPrefix}${key}`;
}

/** Whether `name` is that of a part which is kept, and which nobody writes at the moment. */
export function isKeptName(name: string): boolean {
  return keptShape.test(name);
}

/** The key of a part that is kept under `name`; undefined for another name. */
export function keyOfKept(name: string): string | undefined {
  return keptShape.exec(name)?.[1];
}

/** The key in a staged file's name; undefined when nothing is to be kept of it. */
export function readPartKey(name: string): string | undefined {
  return shape.exec(name)?.[6];
}

/** A new name for a folder that `marker` fills aside. Unlike a staged file's it is a name as any other. */
export function createAsideName(marker: StageMarker): string {
  return `${frontOf(asidePrefix, marker)}${randomBytes(6).toString("hex")}`;
}

function frontOf(start: string, { boot, namespace, pid, startTicks }: StageMarker): string {
  return `${start}${boot}-${namespace}-${pid}-${startTicks}-`;
}

/** Makes one new name after the other for files staged by `marker`; cheaper than one at a time. */
export function createStagedNames(marker: StageMarker): () => string {
  const front = frontOf(prefix, marker);
  let next = randomBytes(6).readUIntBE(0, 6);
  return () => {
    next = (next + 1) % 2 ** 48;
    return `${front}${next.toString(16).padStart(12, "0")}`;
  };
}

/** Who staged the file `name`; undefined for a name of another shape. */
export function readStagedName(name: string): StageMarker | undefined {
  return readName(name, "stage");
}

/** Who fills the folder `name` aside; undefined for a name of another shape. */
export function readAsideName(name: string): StageMarker | undefined {
  return readName(name, "part");
}

function readName(name: string, wanted: "stage" | "part"): StageMarker | undefined {
  const [, kind, boot, namespace, pid, startTicks] = shape.exec(name) ?? [];
  if (kind !== wanted || boot === undefined || namespace === undefined) return undefined;
  if (pid === undefined || startTicks === undefined) return undefined;
  return { boot, namespace, pid: Number(pid), startTicks };
}
