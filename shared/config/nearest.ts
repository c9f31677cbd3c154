/** The candidate that is most like `text`, when one is near enough to be what was meant. */
export function findNearest(text: string, candidates: readonly string[]): string | undefined {
  const limit = Math.max(1, Math.floor(text.length / 3));
  let best: { readonly candidate: string; readonly distance: number } | undefined;
  for (const candidate of candidates) {
    const distance = editDistance(text.toLowerCase(), candidate.toLowerCase());
    if (distance <= limit && distance < (best?.distance ?? Infinity)) best = { candidate, distance };
  }
  return best?.candidate;
}

/** How many letters have to be added, removed or replaced; two swapped neighbours count one. */
function editDistance(left: string, right: string): number {
  if (Math.abs(left.length - right.length) > 8 || left.length > 64) return Infinity;
  let before: number[] = [];
  let above = Array.from({ length: right.length + 1 }, (_, column) => column);
  for (let row = 1; row <= left.length; row += 1) {
    const line = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1];
      let cost = Math.min(
        at(above, column) + 1,
        at(line, column - 1) + 1,
        at(above, column - 1) + (same ? 0 : 1),
      );
      const swapped = left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1];
      if (swapped && row > 1 && column > 1) cost = Math.min(cost, at(before, column - 2) + 1);
      line.push(cost);
    }
    before = above;
    above = line;
  }
  return at(above, right.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Infinity;
}
