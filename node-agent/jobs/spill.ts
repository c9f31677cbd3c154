import { open, readdir, rm, stat, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import type { KeptLimits, KeptOutput } from "../../shared/process/kept-output.ts";
import type { OutputStream } from "../../shared/process/run-command.ts";

/**
 * The output of a job, each stream in files of one size. The first and the last of them are kept: up to `limitBytes` a
 * stream is there as a whole, and of a longer one the middle is missing.
 */
export interface SpillLimits {
  readonly segmentBytes: number;
  /** Files kept from the beginning. */
  readonly headCount: number;
  /** Files kept from the end. */
  readonly tailCount: number;
}

/** 64 MiB of each stream. */
export const spillLimits: SpillLimits = { segmentBytes: 8 * 1024 * 1024, headCount: 4, tailCount: 4 };

function segmentName(stream: OutputStream, at: number): string {
  return `${stream}.${String(at).padStart(6, "0")}`;
}

/** Writes one stream of a job. */
export class SpillWriter {
  readonly #folder: string;
  readonly #stream: OutputStream;
  readonly #limits: SpillLimits;
  #file: FileHandle | undefined;
  #segment = -1;
  #totalBytes = 0;

  constructor(folder: string, stream: OutputStream, limits: SpillLimits = spillLimits) {
    this.#folder = folder;
    this.#stream = stream;
    this.#limits = limits;
  }

  /** Bytes that were written, also those that are gone. */
  get totalBytes(): number {
    return this.#totalBytes;
  }

  /** Writes a chunk; `mayDrop` is waited for before everything before an offset, but the beginning, goes. */
  async write(chunk: Uint8Array, mayDrop: (untilOffset: number) => Promise<void>): Promise<void> {
    const { segmentBytes } = this.#limits;
    for (let rest = chunk; rest.byteLength > 0;) {
      const segment = Math.floor(this.#totalBytes / segmentBytes);
      const file = segment === this.#segment ? this.#file : await this.#next(segment, mayDrop);
      if (!file) throw new Error("the segment is not open");
      const room = (segment + 1) * segmentBytes - this.#totalBytes;
      const { bytesWritten } = await file.write(rest, 0, Math.min(room, rest.byteLength));
      this.#totalBytes += bytesWritten;
      rest = rest.subarray(bytesWritten);
    }
  }

  async #next(segment: number, mayDrop: (untilOffset: number) => Promise<void>): Promise<FileHandle> {
    const { segmentBytes, headCount, tailCount } = this.#limits;
    const dropped = segment - tailCount;
    if (dropped >= headCount) {
      await mayDrop((dropped + 1) * segmentBytes);
      await rm(join(this.#folder, segmentName(this.#stream, dropped)), { force: true });
    }
    await this.#file?.close();
    this.#file = await open(join(this.#folder, segmentName(this.#stream, segment)), "w", 0o600);
    this.#segment = segment;
    return this.#file;
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }
}

/** What stands at an offset: bytes, the next offset where there are some, or nothing yet. */
export type SpillPart = { readonly bytes: Buffer } | { readonly skipTo: number } | undefined;

/** Reads one stream of a job, also while it is written. Disposing closes its file. */
export class SpillReader implements AsyncDisposable {
  readonly #folder: string;
  readonly #stream: OutputStream;
  readonly #limits: SpillLimits;
  #file: FileHandle | undefined;
  #segment = -1;

  constructor(folder: string, stream: OutputStream, limits: SpillLimits = spillLimits) {
    this.#folder = folder;
    this.#stream = stream;
    this.#limits = limits;
  }

  /** At most `maxBytes` from `offset` on. */
  async read(offset: number, maxBytes: number): Promise<SpillPart> {
    const { segmentBytes } = this.#limits;
    const segment = Math.floor(offset / segmentBytes);
    if (segment !== this.#segment) await this.#open(segment);
    if (!this.#file) return await this.#findNext(segment);
    const position = offset - segment * segmentBytes;
    const length = Math.min(maxBytes, segmentBytes - position);
    const bytes = Buffer.allocUnsafe(length);
    const { bytesRead } = await this.#file.read(bytes, 0, length, position);
    return bytesRead === 0 ? undefined : { bytes: bytes.subarray(0, bytesRead) };
  }

  async #open(segment: number): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
    this.#segment = -1;
    try {
      this.#file = await open(join(this.#folder, segmentName(this.#stream, segment)), "r");
      this.#segment = segment;
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  /** Where a stream goes on whose files from `segment` on are gone. */
  async #findNext(segment: number): Promise<SpillPart> {
    const names = await readdir(this.#folder).catch(() => []);
    const later = names
      .filter((name) => name.startsWith(`${this.#stream}.`))
      .map((name) => Number(name.slice(this.#stream.length + 1)))
      .filter((at) => at > segment);
    return later.length === 0 ? undefined : { skipTo: Math.min(...later) * this.#limits.segmentBytes };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ENOENT";
}

/** Beginning and end of a stream that has ended. */
export async function readKept(
  folder: string,
  stream: OutputStream,
  { totalBytes, limits }: { readonly totalBytes: number; readonly limits: KeptLimits },
): Promise<KeptOutput> {
  await using reader = new SpillReader(folder, stream);
  const whole = totalBytes <= limits.headBytes + limits.tailBytes;
  const head = await readRange(reader, 0, whole ? totalBytes : limits.headBytes);
  const tail = whole ? Buffer.alloc(0) : await readRange(reader, totalBytes - limits.tailBytes, totalBytes);
  return { head, tail, totalBytes, truncated: !whole };
}

async function readRange(reader: SpillReader, from: number, to: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let at = from; at < to;) {
    const part = await reader.read(at, to - at);
    // Files that someone took away: what is there is what is told.
    if (!part || !("bytes" in part)) break;
    parts.push(part.bytes);
    at += part.bytes.byteLength;
  }
  return Buffer.concat(parts);
}

/** Bytes of a stream that were written, as its files tell; 0 without files. */
export async function measureSpill(folder: string, stream: OutputStream): Promise<number> {
  const names = await readdir(folder).catch(() => []);
  const last = names
    .filter((name) => name.startsWith(`${stream}.`))
    .toSorted()
    .at(-1);
  if (last === undefined) return 0;
  const { size } = await stat(join(folder, last));
  return Number(last.slice(stream.length + 1)) * spillLimits.segmentBytes + size;
}

/** Removes the output of a job, and leaves how it ended. */
export async function removeSpill(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const spilled = names.filter((name) => name.startsWith("stdout.") || name.startsWith("stderr."));
  await Promise.all(spilled.map((name) => rm(join(folder, name), { force: true })));
}
