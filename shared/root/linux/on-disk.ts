import { type BigIntStats, closeSync, fchownSync, fstatSync, fsync } from "node:fs";
import { promisify } from "node:util";
import { errnoOf } from "../../fault/fault-from-errno.ts";
import type { OpenedFolder } from "./place.ts";

const fsyncAsync = promisify(fsync);

/** Brings the names in a folder to the disk. */
export async function syncFolder(parent: OpenedFolder): Promise<void> {
  const fd = parent.folder.openForSync();
  if (fd === undefined) return;
  try {
    await fsyncAsync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Keeps the owner of a replaced file where this process may give files away. */
export function keepOwner(fd: number, old: BigIntStats): void {
  const own = fstatSync(fd, { bigint: true });
  if (own.uid === old.uid && own.gid === old.gid) return;
  try {
    fchownSync(fd, Number(old.uid), Number(old.gid));
  } catch (error) {
    if (errnoOf(error) !== "EPERM") throw error;
  }
}
