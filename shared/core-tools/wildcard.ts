/**
 * Whether `text` fits `pattern`, in which `*` stands for any characters, none included, and everything else for itself.
 * Takes time in proportion to pattern times text at worst, never more.
 */
export function fitsWildcard(pattern: string, text: string): boolean {
  const [first = "", ...rest] = pattern.split("*");
  const last = rest.pop();
  if (last === undefined) return text === pattern;
  if (!text.startsWith(first) || text.length < first.length + last.length || !text.endsWith(last))
    return false;
  const end = text.length - last.length;
  let at = first.length;
  // The first place that fits leaves the most for those behind it, so nothing is ever tried again.
  for (const part of rest) {
    const found = text.indexOf(part, at);
    if (found < 0 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}
