/** Most characters kept of a text that a machine says about itself. */
const maxReportedCharacters = 200;

const controls = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;

/**
 * A text that a machine says about itself, made harmless before it is kept: what steers a terminal or turns the reading
 * direction is written out as `\u{…}`, and all of it is cut to 200 characters.
 */
export function toReportedText(text: string): string {
  const head = text.slice(0, maxReportedCharacters * 2);
  const visible = head.replaceAll(
    controls,
    (character) => `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
  return [...visible].slice(0, maxReportedCharacters).join("");
}
