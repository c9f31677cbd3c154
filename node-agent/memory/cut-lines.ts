/** Lines of a text, and what they are of it. */
export interface CutLines {
  /** The lines with their ends, unchanged. */
  readonly text: string;
  /** 0 when there is no such line. */
  readonly firstLine: number;
  readonly lastLine: number;
  readonly totalLines: number;
  readonly truncated: boolean;
}

/** Which lines. */
export interface LineRange {
  /** The first, from 1. */
  readonly from: number;
  /** At most so many; 0: all. */
  readonly lines: number;
  /** Cut behind so many characters, between two of them. */
  readonly maxChars: number;
}

/** The lines of `text` in `range`. A start past the end gives none, and says how many there are. */
export function cutLines(text: string, range: LineRange): CutLines {
  const starts = lineStarts(text);
  const totalLines = starts.length;
  const start = starts[range.from - 1];
  if (start === undefined) return { text: "", firstLine: 0, lastLine: 0, totalLines, truncated: false };
  const wantedLast = range.lines === 0 ? totalLines : Math.min(totalLines, range.from - 1 + range.lines);
  const end = starts[wantedLast] ?? text.length;
  const cutEnd = end - start > range.maxChars ? cutBetween(text, start + range.maxChars) : end;
  const truncated = cutEnd < end;
  return {
    text: text.slice(start, cutEnd),
    firstLine: range.from,
    lastLine: truncated ? lineAt(starts, Math.max(start, cutEnd - 1)) : wantedLast,
    totalLines,
    truncated,
  };
}

/** Where each line begins; the end of the last one begins no further line. */
function lineStarts(text: string): readonly number[] {
  const starts: number[] = text === "" ? [] : [0];
  for (let at = text.indexOf("\n"); at >= 0 && at + 1 < text.length; at = text.indexOf("\n", at + 1))
    starts.push(at + 1);
  return starts;
}

function cutBetween(text: string, at: number): number {
  const unit = text.charCodeAt(at - 1);
  return unit >= 0xd800 && unit < 0xdc00 ? at - 1 : at;
}

function lineAt(starts: readonly number[], offset: number): number {
  let low = 0;
  let high = starts.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((starts[middle] ?? 0) <= offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
