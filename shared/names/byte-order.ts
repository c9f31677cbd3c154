const mayDiffer = /[\ud800-\uffff]/;

/**
 * Order of two strings by their UTF-8 bytes: negative, zero or positive. Equal to the order of code points, which the
 * language's own `<` (UTF-16 units) is not where characters beyond U+FFFF meet those from U+E000 on.
 */
export function compareByUtf8(a: string, b: string): number {
  if (!mayDiffer.test(a) && !mayDiffer.test(b)) return compareUnits(a, b);
  const shorter = Math.min(a.length, b.length);
  for (let index = 0; index < shorter; index += 1) {
    const x = a.charCodeAt(index);
    const y = b.charCodeAt(index);
    if (x !== y) return rank(x) - rank(y);
  }
  return a.length - b.length;
}

/** `items` in the order of their keys' UTF-8 bytes. */
export function sortByUtf8<T>(items: readonly T[], keyOf: (item: T) => string): T[] {
  // Nearly always the language's own order is the same, and much cheaper to ask for.
  if (items.some((item) => mayDiffer.test(keyOf(item)))) {
    return items.toSorted((a, b) => compareByUtf8(keyOf(a), keyOf(b)));
  }
  return items.toSorted((a, b) => compareUnits(keyOf(a), keyOf(b)));
}

function compareUnits(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Surrogates stand for characters above all others, so they are ranked above U+E000 to U+FFFF. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}
