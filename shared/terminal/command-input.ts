import { Fault } from "../fault/fault.ts";
import { parseDurationMs } from "./duration.ts";

/** The range of a whole number. */
export interface IntegerRange {
  readonly min: number;
  readonly max: number;
}

/** What was typed, read by name: arguments as in their spec without brackets, options without the dashes. */
export interface CommandInput {
  /** A required argument. */
  argument(name: string): string;
  /** An argument that may be left out. */
  maybeArgument(name: string): string | undefined;
  /** All values of an argument that takes the rest. */
  rest(name: string): readonly string[];
  /** The value of an option. */
  text(option: string): string | undefined;
  /** All values of an option that may be given several times, in order. */
  texts(option: string): readonly string[];
  /** Whether a flag was given; `--no-open` makes `open` false, else it is true. */
  flag(option: string): boolean;
  /** A whole number in a range; `INVALID_ARGUMENT` names the option. */
  integer(option: string, range: IntegerRange): number | undefined;
  /** A duration (`90s`, `10m`) in milliseconds, more than zero; `INVALID_ARGUMENT` names the option. */
  durationMs(option: string): number | undefined;
}

/** What commander parsed. */
export interface ParsedInput {
  readonly args: ReadonlyMap<string, string | readonly string[] | undefined>;
  readonly options: Readonly<Record<string, unknown>>;
}

/** Reads what commander parsed. */
export function createCommandInput(parsed: ParsedInput): CommandInput {
  const option = (name: string): unknown => parsed.options[toCamelCase(name)];
  const text = (name: string): string | undefined => {
    const value = option(name);
    return typeof value === "string" ? requireGiven(value, `--${name}`) : undefined;
  };
  return {
    argument: (name) => {
      const value = parsed.args.get(name);
      if (typeof value !== "string") throw new Error(`argument ${name} is not declared as required`);
      return requireGiven(value, `<${name}>`);
    },
    maybeArgument: (name) => {
      const value = parsed.args.get(name);
      return typeof value === "string" ? requireGiven(value, `[${name}]`) : undefined;
    },
    rest: (name) => {
      const value = parsed.args.get(name);
      if (typeof value === "string" || value === undefined) return [];
      return value.map((one) => requireGiven(one, `[${name}]`));
    },
    text,
    texts: (name) => {
      const value = option(name);
      const texts = Array.isArray(value) ? value.filter((item) => typeof item === "string") : [];
      return texts.map((one) => requireGiven(one, `--${name}`));
    },
    flag: (name) => option(name) === true,
    integer: (name, range) => {
      const value = text(name);
      return value === undefined ? undefined : parseInteger(name, value, range);
    },
    durationMs: (name) => {
      const value = text(name);
      return value === undefined ? undefined : parseDurationMs(value, name);
    },
  };
}

/** Nothing at all is a variable of a script that was not set: never taken for left out. */
function requireGiven(value: string, what: string): string {
  if (value !== "") return value;
  const field = what.replace(/^--|[<>[\]]/g, "");
  throw new Fault("INVALID_ARGUMENT", `${what} is empty`, { details: { field } });
}

function parseInteger(field: string, text: string, range: IntegerRange): number {
  const value = /^-?\d{1,16}$/.test(text) ? Number(text) : Number.NaN;
  if (value >= range.min && value <= range.max) return value;
  throw new Fault(
    "INVALID_ARGUMENT",
    `--${field} is ${text || "empty"}; it must be a whole number from ${range.min} to ${range.max}`,
    { details: { field, actual: text } },
  );
}

function toCamelCase(name: string): string {
  return name.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}
