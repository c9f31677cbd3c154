import { Fault } from "../fault/fault.ts";

/**
 * Refuses JSON that holds half of a surrogate pair: it has no bytes in UTF-8, and whoever encodes it puts another
 * character there without a word. `INVALID_ARGUMENT` with `details.field` = `field` and where in it, then the value.
 */
export function requireWellFormed<T>(value: T, field: string): T {
  const place = findIllFormed(value, field);
  if (place === undefined) return value;
  throw new Fault("INVALID_ARGUMENT", `${place} holds half of a surrogate pair, which is no character`, {
    hint: "write the character itself, or leave it out",
    details: { field },
  });
}

function findIllFormed(value: unknown, place: string): string | undefined {
  if (typeof value === "string") return value.isWellFormed() ? undefined : place;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, inner] of Object.entries(value)) {
    if (!key.isWellFormed()) return `a key of ${place}`;
    const found = findIllFormed(inner, `${place}.${key}`);
    if (found !== undefined) return found;
  }
  return undefined;
}
