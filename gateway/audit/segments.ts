import { constants } from "node:fs";
import { copyFile, type FileHandle, open, readdir, rm, stat } from "node:fs/promises";
import path from "node:path";
import { errnoOf, faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { makePrivateFolder, privateFileMode, syncFolder } from "../../shared/identity/private-files.ts";

/** A line that was read, and where the next one begins. */
export interface SegmentLine {
  readonly text: string;
  /** Offset behind its newline, in bytes. */
  readonly endBytes: number;
}

/** The files of the record. Each holds whole lines, but for a last one that was cut by a crash. */
export interface Segments {
  /** Whether a segment's file is there. */
  has(number: number): Promise<boolean>;
  /** Its size in bytes; 0 when it is not there. */
  size(number: number): Promise<number>;
  /** Appends to a segment and syncs it; makes the file when it is missing. Faults are those of the disk. */
  append(number: number, text: string): Promise<void>;
  /** Cuts a segment behind `sizeBytes`. */
  cut(number: number, sizeBytes: number): Promise<void>;
  /** Keeps a copy of a segment as it is, under a name that is no segment's. */
  keepAside(number: number): Promise<void>;
  /** Removes a segment. */
  remove(number: number): Promise<void>;
  /** The numbers of all files that are there. */
  numbers(): Promise<readonly number[]>;
  /** The whole lines from an offset on, in order; nothing when the file is not there. */
  read(number: number, fromBytes: number): AsyncGenerator<SegmentLine>;
}

const nameShape = /^(\d{6,})\.jsonl$/;
const readBytes = 256 * 1024;
/** Longer than any line that is written; a longer one is given in parts, which are no lines of the chain. */
const maxLineBytes = 4 * 1024 * 1024;

/** Name of a segment's file. */
export function segmentName(number: number): string {
  return `${String(number).padStart(6, "0")}.jsonl`;
}

/** Opens the folder of the segments; it is made for the owner alone. */
export async function openSegments(dir: string): Promise<Segments> {
  await makePrivateFolder(dir);
  const fileOf = (number: number): string => path.join(dir, segmentName(number));
  return {
    has: async (number) => (await sizeOf(fileOf(number))) !== undefined,
    size: async (number) => (await sizeOf(fileOf(number))) ?? 0,
    append: (number, text) => appendTo(fileOf(number), text),
    cut: (number, sizeBytes) => cutBehind(fileOf(number), sizeBytes),
    keepAside: async (number) => {
      await copyFile(fileOf(number), `${fileOf(number)}.beyond`);
      await syncFolder(dir);
    },
    remove: async (number) => {
      await rm(fileOf(number), { force: true });
      await syncFolder(dir);
    },
    numbers: async () => {
      const names = await readdir(dir);
      const numbers = names.map((name) => Number(nameShape.exec(name)?.[1] ?? Number.NaN));
      return numbers.filter((number) => !Number.isNaN(number)).sort((a, b) => a - b);
    },
    read: (number, fromBytes) => readLines(fileOf(number), fromBytes),
  };
}

async function sizeOf(file: string): Promise<number | undefined> {
  try {
    return (await stat(file)).size;
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw faultFromErrno(error, path.basename(file));
  }
}

async function appendTo(file: string, text: string): Promise<void> {
  try {
    const isNew = (await sizeOf(file)) === undefined;
    await using handle = await open(file, "a", privateFileMode);
    const before = (await handle.stat()).size;
    try {
      await handle.appendFile(text);
      await handle.datasync();
    } catch (error) {
      // A half-written batch would be written again behind its own half.
      await handle.truncate(before).catch(() => undefined);
      throw error;
    }
    if (isNew) await syncFolder(path.dirname(file));
  } catch (error) {
    throw faultFromErrno(error, path.basename(file));
  }
}

async function cutBehind(file: string, sizeBytes: number): Promise<void> {
  try {
    await using handle = await open(file, "r+");
    await handle.truncate(sizeBytes);
    await handle.datasync();
  } catch (error) {
    throw faultFromErrno(error, path.basename(file));
  }
}

async function* readLines(file: string, fromBytes: number): AsyncGenerator<SegmentLine> {
  const handle = await openToRead(file);
  if (!handle) return;
  try {
    yield* linesOf(handle, fromBytes);
  } finally {
    await handle.close();
  }
}

async function* linesOf(handle: FileHandle, fromBytes: number): AsyncGenerator<SegmentLine> {
  const buffer = Buffer.allocUnsafe(readBytes);
  let kept = Buffer.alloc(0);
  let endBytes = fromBytes;
  for (let position = fromBytes; ;) {
    const { bytesRead } = await handle.read(buffer, 0, readBytes, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    const bytes = Buffer.concat([kept, buffer.subarray(0, bytesRead)]);
    let start = 0;
    for (let at = bytes.indexOf(0x0a); at >= 0; at = bytes.indexOf(0x0a, start)) {
      endBytes += at + 1 - start;
      yield { text: bytes.toString("utf8", start, at), endBytes };
      start = at + 1;
    }
    kept = Buffer.from(bytes.subarray(start));
    if (kept.byteLength > maxLineBytes) {
      endBytes += kept.byteLength;
      yield { text: "", endBytes };
      kept = Buffer.alloc(0);
    }
  }
}

async function openToRead(file: string): Promise<FileHandle | undefined> {
  try {
    return await open(file, constants.O_RDONLY | constants.O_NOFOLLOW);
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw faultFromErrno(error, path.basename(file));
  }
}
