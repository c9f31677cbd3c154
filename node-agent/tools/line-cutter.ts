/** Which lines of a text are wanted. */
export interface LineRange {
  /** First line, from 1. */
  readonly from: number;
  /** At most so many. */
  readonly lines: number;
}

/** The lines that were cut out. */
export interface CutLines {
  readonly text: string;
  /** Number of the first line of the text; 0 when there is none. */
  readonly firstLine: number;
  /** Number of the last line of the text; 0 when there is none. */
  readonly lastLine: number;
  /** Lines of the whole file. */
  readonly totalLines: number;
  /** Whether lines that were wanted are missing, as they would be too much. */
  readonly truncated: boolean;
}

/** Most bytes of lines that are cut out of one file. */
export const maxCutBytes = 1_048_576;

const newline = 0x0a;

/** Cuts lines out of bytes that go by, in bounded memory. A line ends behind its newline. */
export class LineCutter {
  readonly #range: LineRange;
  readonly #kept: Buffer[] = [];
  #keptBytes = 0;
  /** Number of the line that the next byte belongs to. */
  #line = 1;
  #atLineStart = true;
  #lastKept = 0;
  #isFull = false;
  #sizeBytes = 0;
  #isBinary = false;

  constructor(range: LineRange) {
    this.#range = range;
  }

  /** Bytes that went by. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  /** Whether a NUL went by. */
  get isBinary(): boolean {
    return this.#isBinary;
  }

  /** Takes the next bytes; the buffer stays the caller's. */
  push(bytes: Uint8Array): void {
    const chunk = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.#sizeBytes += chunk.byteLength;
    this.#isBinary ||= chunk.includes(0);
    for (let at = 0; at < chunk.byteLength;) {
      const found = chunk.indexOf(newline, at);
      const end = found < 0 ? chunk.byteLength : found + 1;
      this.#keep(chunk.subarray(at, end));
      this.#atLineStart = found >= 0;
      if (found >= 0) this.#line += 1;
      at = end;
    }
  }

  /** What was cut out. */
  take(): CutLines {
    const totalLines = this.#atLineStart ? this.#line - 1 : this.#line;
    const text = Buffer.concat(this.#kept, this.#keptBytes).toString("utf8");
    const firstLine = this.#lastKept === 0 ? 0 : this.#range.from;
    return { text, firstLine, lastLine: this.#lastKept, totalLines, truncated: this.#isFull };
  }

  #keep(part: Buffer): void {
    const { from, lines } = this.#range;
    if (this.#isFull || this.#line < from || this.#line >= from + lines) return;
    const room = maxCutBytes - this.#keptBytes;
    this.#isFull = part.byteLength > room;
    if (room <= 0) return;
    this.#kept.push(Buffer.from(part.subarray(0, room)));
    this.#keptBytes += Math.min(room, part.byteLength);
    this.#lastKept = this.#line;
  }
}
