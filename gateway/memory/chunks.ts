import { hash } from "node:crypto";
import { createHeadingTrail } from "./heading-trail.ts";

/** A passage of a file: what is indexed, found and quoted. */
export interface Chunk {
  /** Its first line, from 1. */
  readonly firstLine: number;
  /** Its last line. */
  readonly lastLine: number;
  readonly text: string;
  /** The headings that its first line stands under, outermost first, joined by ` > `; empty without any. */
  readonly heading: string;
  /** Names headings and text together, 64 hex digits: what has the same one is the same passage. */
  readonly digest: string;
}

/** How texts are cut. */
export interface ChunkSize {
  /** Most characters of a chunk. */
  readonly maxLength: number;
  /** Most characters that a chunk repeats of the one before it. */
  readonly maxOverlap: number;
}

const charactersOfToken = 4;

/** Most characters of a chunk: 400 tokens of 4 characters. */
export const maxChunkLength = 1600;

/** Most characters that a chunk repeats of the one before it: 80 tokens. */
export const maxOverlapLength = 320;

/** The size that is taken when the configuration says nothing. */
export const defaultChunkSize: ChunkSize = { maxLength: maxChunkLength, maxOverlap: maxOverlapLength };

/** The way of cutting: a text that was cut another way is cut again. */
const chunkerVersion = 2;

/** Names how texts are cut. */
export function nameChunking({ maxLength, maxOverlap }: ChunkSize): string {
  return `chunks ${chunkerVersion}, ${maxLength}/${maxOverlap}`;
}

/** The size that so many tokens make. */
export function toChunkSize(tokens: number, overlapTokens: number): ChunkSize {
  return { maxLength: tokens * charactersOfToken, maxOverlap: overlapTokens * charactersOfToken };
}

/** The tokens of a size: of a chunk and of what it repeats. */
export function toTokens({ maxLength, maxOverlap }: ChunkSize): readonly [number, number] {
  return [maxLength / charactersOfToken, maxOverlap / charactersOfToken];
}

/** What is embedded of a chunk: its headings say what the text is about. */
export function toEmbeddedText({ heading, text }: Pick<Chunk, "heading" | "text">): string {
  return heading === "" ? text : `${heading}\n\n${text}`;
}

interface Piece {
  readonly line: number;
  readonly text: string;
  /** The headings over it. */
  readonly heading: string;
  /** Whether it is a heading itself. */
  readonly isHeading: boolean;
}

/**
 * Cuts a Markdown text into chunks that cover every line. A chunk ends before a heading once it holds a quarter of its
 * size, else after a paragraph, else at the end of a line, so that an edit changes the chunks around it and no others;
 * only a line that is longer than a chunk is cut within, never inside a surrogate pair. Equal text gives equal chunks.
 */
export function toChunks(text: string, size: ChunkSize = defaultChunkSize): readonly Chunk[] {
  const chunks: Chunk[] = [];
  let held: Piece[] = [];
  let length = 0;
  const end = (count: number, room: number): void => {
    const taken = held.slice(0, count);
    chunks.push(toChunk(taken));
    held = [...takeOverlap(taken, room), ...held.slice(count)];
    length = lengthOf(held);
  };
  for (const piece of toPieces(text, size.maxLength)) {
    if (piece.isHeading && length >= size.maxLength / 4) end(held.length, 0);
    while (held.length > 0 && length + 1 + piece.text.length > size.maxLength) {
      const count = findParagraphEnd(held, size.maxLength / 2);
      const room = size.maxLength - lengthOf(held.slice(count)) - piece.text.length - 2;
      end(count, Math.min(size.maxOverlap, room));
    }
    length += piece.text.length + (held.length > 0 ? 1 : 0);
    held.push(piece);
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

function* toPieces(text: string, maxLength: number): Generator<Piece> {
  const trail = createHeadingTrail();
  for (const [index, line] of splitLines(text).entries()) {
    const isHeading = trail.read(line);
    for (const slice of cutLine(line, maxLength)) {
      yield { line: index + 1, text: slice, heading: trail.text, isHeading };
    }
  }
}

function cutLine(line: string, maxLength: number): readonly string[] {
  if (line.length <= maxLength) return [line];
  const slices: string[] = [];
  for (let at = 0; at < line.length;) {
    let end = Math.min(line.length, at + maxLength);
    if (end < line.length && isHighSurrogate(line.charCodeAt(end - 1))) end -= 1;
    slices.push(line.slice(at, end));
    at = end;
  }
  return slices;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit < 0xdc00;
}

/** How many pieces end with a paragraph at or after `from` characters: as many as there are, or all of them. */
function findParagraphEnd(held: readonly Piece[], from: number): number {
  let length = lengthOf(held);
  for (let count = held.length; count > 1; count -= 1) {
    const last = held[count - 1];
    if (last?.text === "" && length >= from) return count;
    length -= (last?.text.length ?? 0) + 1;
  }
  return held.length;
}

/** The last pieces of a finished chunk, as far as they fit into `room` characters, each with the end of its line. */
function takeOverlap(held: readonly Piece[], room: number): Piece[] {
  let from = held.length;
  let length = 0;
  while (from > 1) {
    const next = length + (held[from - 1]?.text.length ?? 0) + 1;
    if (next > room) break;
    length = next;
    from -= 1;
  }
  return held.slice(from);
}

/** Characters of the pieces put together, counting a line's end between any two. */
function lengthOf(pieces: readonly Piece[]): number {
  return pieces.reduce((sum, { text }) => sum + text.length + 1, 0) - (pieces.length > 0 ? 1 : 0);
}

function toChunk(pieces: readonly Piece[]): Chunk {
  const text = joinPieces(pieces);
  const heading = pieces[0]?.heading ?? "";
  return {
    firstLine: pieces[0]?.line ?? 1,
    lastLine: pieces.at(-1)?.line ?? 1,
    text,
    heading,
    digest: hash("sha256", `${heading}\0${text}`, "hex"),
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
