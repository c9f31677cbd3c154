import { isFault, toFaultJson } from "../fault/fault.ts";

/** What stands in the place of a secret. */
export const redacted = "[redacted]";

const secretNames =
  /^(?:.*(?:secret|password|passphrase|token|cookie|credential)s?|authorization|joincode|.*privatekey|keypem|.*apikey)$/i;

// A join code, a bearer token, the body of a PEM key.
const secretShapes: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)/g, redacted],
  [/\b(Bearer\s+)[\w.~+/=-]{8,}/gi, `$1${redacted}`],
  [/\bfl[a-z]*[-_.][A-Za-z0-9_-]{24,}/g, redacted],
];

const depthLimit = 6;
const itemLimit = 100;

/** `text` without what looks like a secret. */
export function redactText(text: string): string {
  return secretShapes.reduce((clean, [shape, instead]) => clean.replace(shape, instead), text);
}

/** A copy of a value for the log: secrets struck out, errors as objects, cut in depth and breadth. */
export function redact(value: unknown, depth = 0): unknown {
  if (typeof value === "string") return redactText(value);
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return value;
  if (depth >= depthLimit) return "[deep]";
  if (value instanceof Error) return redactError(value, depth);
  if (value instanceof Uint8Array) return `[${value.byteLength} bytes]`;
  if (Array.isArray(value)) return value.slice(0, itemLimit).map((item) => redact(item, depth + 1));
  const entries = Object.entries(value).slice(0, itemLimit);
  return Object.fromEntries(
    entries.map(([name, item]) => [
      name,
      secretNames.test(name) && isWorthHiding(item) ? redacted : redact(item, depth + 1),
    ]),
  );
}

function isWorthHiding(value: unknown): boolean {
  return (typeof value === "string" && value !== "") || (typeof value === "object" && value !== null);
}

function redactError(error: Error, depth: number): unknown {
  const cause = error.cause === undefined ? {} : { cause: redact(error.cause, depth + 1) };
  if (isFault(error)) {
    const { details, ...said } = toFaultJson(error);
    return { ...said, message: redactText(said.message), details: redact(details, depth + 1), ...cause };
  }
  return {
    name: error.name,
    message: redactText(error.message),
    stack: redactText(error.stack ?? ""),
    ...cause,
  };
}
