/** The longest text of a node that is shown in a cell, in characters. */
export const shownTextLimit = 200;

// Control characters, the marks that turn or hide text, and halves of a surrogate pair.
const unsafe = /[\p{Cc}\p{Cs}\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;
const unsafeInJson = /[\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** `text` with control characters, escapes and direction marks written out, so that showing it does nothing else. */
export function visibleText(text: string): string {
  return text.replace(unsafe, writeOut);
}

/** `visibleText`, cut to `limit` characters with `…` at the end. For anything that another machine said. */
export function safeText(text: string, limit: number = shownTextLimit): string {
  // Escaping makes text longer, never shorter: only the beginning has to be looked at.
  const visible = visibleText(text.slice(0, limit * 2 + 2));
  const points = Array.from(visible);
  return points.length <= limit ? visible : `${points.slice(0, limit - 1).join("")}…`;
}

/** Text of many lines for a terminal: as it is but for what could steer the terminal. */
export function terminalText(text: string): string {
  return text.replace(unsafe, (character) =>
    character === "\n" || character === "\t" ? character : writeOut(character),
  );
}

/** JSON text that is also safe to show: the same value, with what JSON leaves raw written as `\uXXXX`. */
export function safeJson(json: string): string {
  return json.replace(unsafeInJson, (character) => `\\u${hex(character, 4)}`);
}

function writeOut(character: string): string {
  if (character === "\n") return "\\n";
  if (character === "\r") return "\\r";
  if (character === "\t") return "\\t";
  const code = character.codePointAt(0) ?? 0;
  return code <= 0xff ? `\\x${hex(character, 2)}` : `\\u{${hex(character, 4)}}`;
}

function hex(character: string, digits: number): string {
  return (character.codePointAt(0) ?? 0).toString(16).padStart(digits, "0");
}
