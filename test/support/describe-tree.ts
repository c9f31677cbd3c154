import type { Dirent } from "node:fs";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { digestOf } from "../../shared/content/digest.ts";

/** What of a tree is left out of a comparison, by the path of an entry as text. */
export type LeaveOut = (path: string) => boolean;

/**
 * A tree byte for byte: a line for each entry, with the bytes of its path, its kind and permission bits, and the digest and
 * time (to the microsecond) of a file or the target of a link; in order of the paths' bytes.
 */
export async function describeTree(
  folder: string,
  leaveOut: LeaveOut = () => false,
): Promise<readonly string[]> {
  const lines: { readonly path: Buffer; readonly line: string }[] = [];
  const pending: Buffer[] = [Buffer.alloc(0)];
  for (let below = pending.pop(); below !== undefined; below = pending.pop()) {
    const at = Buffer.concat([Buffer.from(`${folder}/`), below]);
    for (const entry of await readdir(at, { withFileTypes: true, encoding: "buffer" })) {
      const path = below.length === 0 ? entry.name : Buffer.concat([below, slash, entry.name]);
      if (leaveOut(path.toString())) continue;
      lines.push({
        path,
        line: await describe(Buffer.concat([Buffer.from(`${folder}/`), path]), path, entry),
      });
      if (entry.isDirectory()) pending.push(path);
    }
  }
  return lines.toSorted((a, b) => Buffer.compare(a.path, b.path)).map(({ line }) => line);
}

const slash = Buffer.from("/");

async function describe(at: Buffer, path: Buffer, entry: Dirent<Buffer>): Promise<string> {
  const stats = await lstat(at, { bigint: true });
  const mode = (Number(stats.mode) & 0o777).toString(8);
  const name = JSON.stringify(path.toString("latin1"));
  if (entry.isSymbolicLink()) return `${name} link ${(await readlink(at, "buffer")).toString("latin1")}`;
  if (entry.isDirectory()) return `${name} folder ${mode}`;
  if (!entry.isFile()) return `${name} other`;
  return `${name} file ${mode} ${stats.mtimeNs / 1_000n} ${digestOf(await readFile(at))}`;
}
