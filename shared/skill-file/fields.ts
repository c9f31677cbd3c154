import type { JsonValue } from "../fault/fault.ts";
import type { Diagnostic } from "./diagnostic.ts";

/** Judges one field's value: what must hold, as words, or undefined when it does. */
type FieldRule = (value: JsonValue) => string | undefined;

/** Longest name of a skill. */
export const maxSkillNameLength = 64;

/** Longest description of a skill, in characters after trimming. */
export const maxDescriptionLength = 1024;

const nameShape = /^[a-z0-9]+(?:-[a-z0-9]+)*$/;

/** The rule of names, as messages state it. */
export const nameRule =
  "a name is 1 to 64 characters of a to z, 0 to 9 and single hyphens, with none at either end";

/** Whether `text` is a skill's name. */
export function isSkillName(text: string): boolean {
  return text.length <= maxSkillNameLength && nameShape.test(text);
}

const text: FieldRule = (value) => (typeof value === "string" ? undefined : "must be text");
const flag: FieldRule = (value) => (typeof value === "boolean" ? undefined : "must be true or false");
const textList: FieldRule = (value) =>
  Array.isArray(value) && value.every((item) => typeof item === "string" && item !== "")
    ? undefined
    : "must be a list of texts";
const map: FieldRule = (value) => (isMapping(value) ? undefined : "must be a mapping");

const binaries: FieldRule = (value) => {
  const flaw = textList(value);
  if (flaw !== undefined) return flaw;
  const named = value as readonly string[];
  return named.some((name) => /[/\\\0]/.test(name)) ? "must name binaries without a slash" : undefined;
};

function gateRules(prefix: string): readonly (readonly [string, FieldRule])[] {
  return [
    [`${prefix}always`, flag],
    [`${prefix}os`, textList],
    [`${prefix}requires`, map],
    [`${prefix}requires.bins`, binaries],
    [`${prefix}requires.anyBins`, binaries],
    [`${prefix}requires.env`, textList],
    [`${prefix}requires.config`, textList],
  ];
}

/** Every field that means something, by its dotted path. Others are kept and mean nothing. */
const rules: ReadonlyMap<string, FieldRule> = new Map<string, FieldRule>([
  [
    "name",
    (value) => text(value) ?? (isSkillName(value as string) ? undefined : `is no skill name: ${nameRule}`),
  ],
  ["description", (value) => text(value) ?? describeLength(value as string, maxDescriptionLength)],
  ["license", text],
  ["compatibility", (value) => text(value) ?? describeLength(value as string, 500)],
  ["metadata", map],
  ["allowed-tools", (value) => (typeof value === "string" ? undefined : textList(value))],
  ["user-invocable", flag],
  ["disable-model-invocation", flag],
  ["command-dispatch", (value) => (value === "tool" ? undefined : "must be tool")],
  ["command-tool", (value) => text(value) ?? (value === "" ? "must not be empty" : undefined)],
  ...gateRules(""),
  // Files made for other programs keep the same fields deeper.
  ["metadata.fairlead", map],
  ...gateRules("metadata.fairlead."),
  ["metadata.openclaw", map],
  ...gateRules("metadata.openclaw."),
]);

/** What is wrong with known fields: each with its line. Fields that are not known are not looked at. */
export function checkFields(
  values: ReadonlyMap<string, JsonValue>,
  lines: ReadonlyMap<string, number>,
): readonly Diagnostic[] {
  const flaws: Diagnostic[] = [];
  for (const [path, rule] of rules) {
    const value = readField(values, path);
    if (value === undefined) continue;
    const flaw = rule(value);
    if (flaw === undefined) continue;
    flaws.push({
      severity: "error",
      line: lines.get(path) ?? 0,
      field: path,
      message: `${path} ${flaw}`,
      hint: hintFor(path),
    });
  }
  return flaws;
}

/** A field by its dotted path; own fields only. */
function readField(values: ReadonlyMap<string, JsonValue>, path: string): JsonValue | undefined {
  const [first = "", ...rest] = path.split(".");
  let value = values.get(first);
  for (const key of rest) {
    if (value === undefined || !isMapping(value) || !Object.hasOwn(value, key)) return undefined;
    value = value[key];
  }
  return value;
}

/** Whether a value is a mapping of fields. */
export function isMapping(value: JsonValue): value is { readonly [key: string]: JsonValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function describeLength(value: string, limit: number): string | undefined {
  const length = [...value.trim()].length;
  if (length > 0 && length <= limit) return undefined;
  return `has ${length} characters; it must have 1 to ${limit}`;
}

function hintFor(path: string): string {
  switch (path.replace(/^metadata\.(?:fairlead|openclaw)\./, "")) {
    case "name":
      return "name it like its folder, for example release-notes; put a number in quotes";
    case "description":
      return "say in a sentence or two what the skill does and when to use it";
    case "requires.bins":
    case "requires.anyBins":
    case "requires.env":
    case "requires.config":
    case "os":
      return `write a list, as in ${path.split(".").at(-1)}: [git]`;
    case "user-invocable":
    case "disable-model-invocation":
    case "always":
      return "write true or false, without quotes";
    default:
      return "mend the field, or remove it";
  }
}
