const frontMatter = /^\ufeff?---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n|$)/;
const mark = /^evergreen[ \t]*:[ \t]*(?:true|yes)[ \t]*$/m;

/** Most characters that front matter is looked for in. */
const maxFrontMatterLength = 16_384;

/** Whether a text says of itself, in its front matter, that it does not age. */
export function isEvergreen(text: string): boolean {
  const found = frontMatter.exec(text.slice(0, maxFrontMatterLength));
  return found !== null && mark.test((found[1] ?? "").replaceAll("\r", ""));
}
