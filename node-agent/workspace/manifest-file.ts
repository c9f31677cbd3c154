import { createHash, type Hash } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { isDigest } from "../../shared/content/digest.ts";
import { errnoOf, faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { privateFileMode, syncFolder } from "../../shared/identity/private-files.ts";
import { pathNames, type WorkspacePath } from "../../shared/names/workspace-path.ts";
import { createPause } from "../../shared/root/linux/pause.ts";
import { eachFolder, type Known, type KnownFile, type KnownFolder } from "./known-tree.ts";

// A kept manifest is text: a line that names the format, then a line for each folder with the files whose content was
// read, as JSON, and last the digest of all lines before. It holds nothing that the disk does not say better: whoever
// finds it damaged reads the files again.

/** The digests that were kept, by folder and name. */
export type KeptDigests = ReadonlyMap<string, ReadonlyMap<string, KnownFile>>;

const format = '{"manifest":1}';
/** A kept manifest is never larger; one that would be is not kept. */
const maxManifestBytes = 512 * 1024 * 1024;
const pieceBytes = 1024 * 1024;

type Row = readonly [string, number, number, string, string, string, number, string];

/** Reads what was kept; undefined when there is nothing. A file that was cut or altered is `INTEGRITY_FAILURE`. */
export async function readManifestFile(path: string, signal: AbortSignal): Promise<KeptDigests | undefined> {
  try {
    await using file = await open(path, "r");
    const { size } = await file.stat();
    if (size > maxManifestBytes) throw damaged();
    const reader = new LineReader();
    const buffer = Buffer.allocUnsafe(pieceBytes);
    for (;;) {
      signal.throwIfAborted();
      const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
      if (bytesRead === 0) return reader.end();
      reader.take(buffer.subarray(0, bytesRead));
    }
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw faultFromErrno(error, "the kept manifest");
  }
}

/** What is written. */
export interface ManifestContent {
  readonly top: KnownFolder;
  /** What was read and concerns folders that were not looked at since: it is kept on. */
  readonly kept: KeptDigests;
}

/** Writes the digests as a whole: whoever looks meanwhile, or after a crash, finds the old file or the new. */
export async function writeManifestFile(
  path: string,
  { top, kept }: ManifestContent,
  signal: AbortSignal,
): Promise<void> {
  const stage = `${path}.new`;
  const hash = createHash("sha256");
  try {
    await rm(stage, { force: true });
    await using file = await open(stage, "wx", privateFileMode);
    let sizeBytes = 0;
    for await (const piece of toPieces({ top, kept }, hash, signal)) {
      sizeBytes += piece.byteLength;
      if (sizeBytes > maxManifestBytes) return void (await rm(stage, { force: true }));
      await file.writeFile(piece);
    }
    await file.sync();
    await rename(stage, path);
    await syncFolder(dirname(path));
  } catch (error) {
    throw faultFromErrno(error, basename(path));
  }
}

async function* toPieces(
  content: ManifestContent,
  hash: Hash,
  signal: AbortSignal,
): AsyncGenerator<Buffer, void> {
  const pause = createPause(signal);
  let text = `${format}\n`;
  for (const [path, entries] of eachKept(content)) {
    const rows = [...toRows(entries)];
    if (rows.length > 0) text += `${JSON.stringify([path, ...rows])}\n`;
    if (text.length >= pieceBytes) {
      yield hashed(text, hash);
      text = "";
    }
    if (pause.isDue()) await pause.take();
  }
  yield hashed(text, hash);
  yield Buffer.from(`${hash.digest("hex")}\n`);
}

type Entries = Iterable<readonly [string, Known]>;

function* eachKept({ top, kept }: ManifestContent): Generator<readonly [string, Entries]> {
  for (const [folder, path] of eachFolder(top)) if (folder.isListed) yield [path, folder.entries];
  for (const [path, entries] of kept) if (isUnseen(top, path)) yield [path, entries];
}

/** Whether nobody has looked at a folder yet, nor seen that it is gone. */
function isUnseen(top: KnownFolder, path: string): boolean {
  let folder = top;
  for (const name of pathNames(path as WorkspacePath)) {
    const next = folder.entries.get(name);
    if (next?.kind !== "folder") return !folder.isListed;
    folder = next;
  }
  return !folder.isListed;
}

function hashed(text: string, hash: Hash): Buffer {
  const piece = Buffer.from(text);
  hash.update(piece);
  return piece;
}

function* toRows(entries: Entries): Generator<Row> {
  for (const [name, known] of entries) {
    if (known.kind !== "file" || known.digest === undefined || known.hashedAtMs === undefined) continue;
    const { mode, sizeBytes, mtimeNs, ctimeNs, id, hashedAtMs, digest } = known;
    yield [name, mode, sizeBytes, String(mtimeNs), String(ctimeNs), id, hashedAtMs, digest];
  }
}

/** Takes the file apart; the last line is held back until it is known to be the last. */
class LineReader {
  readonly #hash = createHash("sha256");
  readonly #folders = new Map<string, Map<string, KnownFile>>();
  #rest: Buffer = Buffer.alloc(0);
  #held: string | undefined;
  #isBegun = false;

  take(piece: Buffer): void {
    let from = 0;
    for (let at = piece.indexOf(10); at >= 0; at = piece.indexOf(10, from)) {
      const line = Buffer.concat([this.#rest, piece.subarray(from, at)]);
      this.#rest = Buffer.alloc(0);
      from = at + 1;
      this.#line(line.toString("utf8"));
    }
    // The buffer is the reader's again.
    this.#rest = Buffer.concat([this.#rest, piece.subarray(from)]);
  }

  end(): KeptDigests {
    const sum = this.#held;
    if (this.#rest.length > 0 || sum === undefined || sum !== this.#hash.digest("hex")) throw damaged();
    return this.#folders;
  }

  #line(line: string): void {
    const before = this.#held;
    this.#held = line;
    if (before === undefined) return;
    this.#hash.update(`${before}\n`);
    if (this.#isBegun) this.#folder(before);
    else if (before !== format) throw damaged();
    this.#isBegun = true;
  }

  #folder(line: string): void {
    const parsed = parseLine(line);
    if (!parsed) throw damaged();
    const [path, rows] = parsed;
    this.#folders.set(path, new Map(rows.map((row) => [row[0], toFile(row)])));
  }
}

function parseLine(line: string): readonly [WorkspacePath, readonly Row[]] | undefined {
  try {
    const [path, ...rows]: unknown[] = JSON.parse(line);
    if (typeof path !== "string" || !rows.every(isRow)) return undefined;
    return [path as WorkspacePath, rows];
  } catch {
    return undefined;
  }
}

const rowShape = ["string", "number", "number", "string", "string", "string", "number", "string"];

function isRow(row: unknown): row is Row {
  if (!Array.isArray(row) || row.length !== rowShape.length) return false;
  if (!row.every((value, index) => typeof value === rowShape[index])) return false;
  return [row[3], row[4]].every((time) => /^-?\d+$/.test(String(time))) && isDigest(String(row[7]));
}

function toFile([, mode, sizeBytes, mtimeNs, ctimeNs, id, hashedAtMs, digest]: Row): KnownFile {
  if (!isDigest(digest)) throw damaged();
  const stamp = { mode, mtimeNs: BigInt(mtimeNs), ctimeNs: BigInt(ctimeNs), id };
  return { kind: "file", sizeBytes, ...stamp, hashedAtMs, digest };
}

function damaged(): Fault {
  return new Fault("INTEGRITY_FAILURE", "the kept manifest was cut or altered");
}
