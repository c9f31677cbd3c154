/** A passage of a file: what is indexed, found and quoted. */
export interface Chunk {
  /** Its first line, from 1. */
  readonly firstLine: number;
  /** Its last line. */
  readonly lastLine: number;
  readonly text: string;
}

/** Most characters of a chunk: 400 tokens of 4 characters. */
export const maxChunkLength = 1600;

/** Most characters that a chunk repeats of the one before it: 80 tokens. */
export const maxOverlapLength = 320;

/** Names this way of cutting: an index made by another way is rebuilt. */
export const chunkerVersion = 1;

interface Piece {
  readonly line: number;
  readonly text: string;
}

/**
 * Cuts `text` into chunks that cover every line. A chunk ends at the end of a line, and only a line that is longer than
 * a chunk is cut within, never inside a surrogate pair. Equal text gives equal chunks.
 */
export function toChunks(text: string): readonly Chunk[] {
  const chunks: Chunk[] = [];
  let held: Piece[] = [];
  let heldLength = 0;
  for (const piece of toPieces(text)) {
    const length = piece.text.length + 1;
    if (held.length > 0 && heldLength + length - 1 > maxChunkLength) {
      chunks.push(toChunk(held));
      held = takeOverlap(held, maxChunkLength - length + 1);
      heldLength = held.reduce((sum, kept) => sum + kept.text.length + 1, 0);
    }
    held.push(piece);
    heldLength += length;
  }
  if (held.length > 0) chunks.push(toChunk(held));
  return chunks;
}

/** The lines of `text` without their ends; the end of the last line begins no further one. */
export function splitLines(text: string): readonly string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((line) => (line.endsWith("\r") ? line.slice(0, -1) : line));
}

function* toPieces(text: string): Generator<Piece> {
  for (const [index, line] of splitLines(text).entries()) {
    for (const slice of cutLine(line)) yield { line: index + 1, text: slice };
  }
}

function cutLine(line: string): readonly string[] {
  if (line.length <= maxChunkLength) return [line];
  const slices: string[] = [];
  for (let at = 0; at < line.length;) {
    let end = Math.min(line.length, at + maxChunkLength);
    if (end < line.length && isHighSurrogate(line.charCodeAt(end - 1))) end -= 1;
    slices.push(line.slice(at, end));
    at = end;
  }
  return slices;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}

/** The last pieces of a finished chunk, as far as they fit the overlap and leave `room` for what follows. */
function takeOverlap(held: readonly Piece[], room: number): Piece[] {
  let from = held.length;
  let length = 0;
  while (from > 0) {
    const next = length + (held[from - 1]?.text.length ?? 0) + 1;
    if (next > maxOverlapLength || next > room) break;
    length = next;
    from -= 1;
  }
  return held.slice(from);
}

function toChunk(pieces: readonly Piece[]): Chunk {
  return {
    firstLine: pieces[0]?.line ?? 1,
    lastLine: pieces.at(-1)?.line ?? 1,
    text: joinPieces(pieces),
  };
}

/** Pieces of one line belong together without a break. */
function joinPieces(pieces: readonly Piece[]): string {
  let text = "";
  for (const [index, piece] of pieces.entries()) {
    const isSameLine = pieces[index - 1]?.line === piece.line;
    text += index === 0 || isSameLine ? piece.text : `\n${piece.text}`;
  }
  return text;
}
