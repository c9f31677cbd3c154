import { randomBytes } from "node:crypto";

/**
 * Names of files that are being written: `.fairlead-stage-<boot>-<namespace>-<process id>-<start time>-<random>`, so that a
 * later process can tell a leftover of a dead one from the work of a living one.
 */

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
const shape = /^\.fairlead-stage-([0-9a-f]{8})-([0-9]+)-([0-9]+)-([0-9]+)-[0-9a-f]{12}$/;

/** Whether `name` is kept for staged files; no entry of that name is ever shown or taken. */
export function isStagedName(name: string): boolean {
  return name.startsWith(prefix);
}

/** A new name for a file staged by `marker`. */
export function createStagedName(marker: StageMarker): string {
  const random = randomBytes(6).toString("hex");
  return `${prefix}${marker.boot}-${marker.namespace}-${marker.pid}-${marker.startTicks}-${random}`;
}

/** Makes one new name after the other for files staged by `marker`; cheaper than one at a time. */
export function createStagedNames(marker: StageMarker): () => string {
  const { boot, namespace, pid, startTicks } = marker;
  const front = `${prefix}${boot}-${namespace}-${pid}-${startTicks}-`;
  let next = randomBytes(6).readUIntBE(0, 6);
  return () => {
    next = (next + 1) % 2 ** 48;
    return `${front}${next.toString(16).padStart(12, "0")}`;
  };
}

/** Who staged `name`; undefined for a name of another shape. */
export function readStagedName(name: string): StageMarker | undefined {
  const [, boot, namespace, pid, startTicks] = shape.exec(name) ?? [];
  if (boot === undefined || namespace === undefined || pid === undefined || startTicks === undefined)
    return undefined;
  return { boot, namespace, pid: Number(pid), startTicks };
}
