import { Fault } from "../fault/fault.ts";

/** `K=V` texts as a record; a comma separates several in one. A malformed or repeated one is `INVALID_ARGUMENT`. */
export function parsePairs(texts: readonly string[], field: string): Record<string, string> {
  const pairs = new Map<string, string>();
  for (const text of texts.flatMap((item) => item.split(","))) {
    const at = text.indexOf("=");
    const key = text.slice(0, Math.max(0, at)).trim();
    const value = text.slice(at + 1).trim();
    if (!isKey(key) || !isValue(value) || pairs.has(key)) throw malformed(text, field);
    pairs.set(key, value);
  }
  return Object.fromEntries(pairs);
}

function isKey(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}$/.test(text) && text !== "__proto__";
}

function isValue(text: string): boolean {
  return Array.from(text).length <= 63 && !/\p{Cc}/u.test(text);
}

function malformed(text: string, field: string): Fault {
  return new Fault("INVALID_ARGUMENT", `--${field} ${JSON.stringify(text.slice(0, 200))} is not one K=V`, {
    hint: `write it like --${field} env=prod; key and value have at most 63 characters, and a key stands once`,
    details: { field, actual: text.slice(0, 200) },
  });
}
