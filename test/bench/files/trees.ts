import { createHash, randomBytes } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Writes a file of random bytes. */
export async function writeRandomFile(path: string, sizeBytes: number): Promise<void> {
  await using file = await open(path, "wx");
  const chunkBytes = 4 * 1024 * 1024;
  for (let done = 0; done < sizeBytes; done += chunkBytes) {
    await file.write(randomBytes(Math.min(chunkBytes, sizeBytes - done)));
  }
  await file.sync();
}

/** A file's digest as 64 hex digits. */
export async function digestFile(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path, { highWaterMark: 1024 * 1024 }))
    hash.update(chunk as Buffer);
  return hash.digest("hex");
}

/** Writes a nested tree: `count` files of 2 to 6 KiB, a hundred a folder. */
export async function writeTree(folder: string, count: number): Promise<void> {
  for (let index = 0; index < count; index += 100) {
    const inner = join(folder, `d${Math.floor(index / 1000)}`, `e${(index / 100) % 10}`);
    await mkdir(inner, { recursive: true });
    for (let at = index; at < Math.min(count, index + 100); at += 1) {
      await writeFile(join(inner, `f${at}.txt`), randomBytes(2048 + ((at * 7919) % 4096)));
    }
  }
}

/** One digest over all names and contents below a folder. */
export async function digestTree(folder: string): Promise<string> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  const hash = createHash("sha256");
  for (const file of files.toSorted())
    hash.update(`${file.slice(folder.length)}\0`).update(await readFile(file));
  return hash.digest("hex");
}
