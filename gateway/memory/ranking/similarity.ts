const word = /[\p{L}\p{N}\p{M}]+/gu;

/** The different words of a text, in lower case; a text without any is its one word. */
export function toWordSet(text: string): ReadonlySet<string> {
  const words = text.toLowerCase().match(word);
  return new Set(words ?? [text]);
}

/** How alike two texts are by their words: what they share of all that either has, 0 to 1. */
export function similarityOf(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  const [small, large] = a.size <= b.size ? [a, b] : [b, a];
  let shared = 0;
  for (const each of small) if (large.has(each)) shared += 1;
  const all = a.size + b.size - shared;
  return all === 0 ? 1 : shared / all;
}
