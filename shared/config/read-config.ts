import { open } from "node:fs/promises";
import { type Document, isNode, isPair, isMap, LineCounter, parseDocument } from "yaml";
import type { z } from "zod";
import { errnoOf, faultFromErrno } from "../fault/fault-from-errno.ts";
import { Fault } from "../fault/fault.ts";
import { findNearest } from "./nearest.ts";

/** The largest configuration file, in bytes. */
export const configMaxBytes = 1_048_576;

/** Where a value stands. */
export interface ConfigPlace {
  readonly file: string;
  /** From 1. */
  readonly line: number;
}

/** The way to a value: `["workspaces", 0, "dir"]`. */
export type ConfigKey = readonly (string | number)[];

/** One mistake in a configuration file. */
export interface ConfigProblem extends ConfigPlace {
  /** Dotted: `workspaces.0.dir`; empty for the whole file. */
  readonly key: string;
  readonly message: string;
  readonly hint?: string;
}

/** A configuration file that was read. */
export interface ConfigFile<T> {
  readonly value: T;
  readonly file: string;
  /** False: there is no file, and everything is at its default. */
  readonly exists: boolean;
  /** Where a value is set, or undefined when it is a default. */
  placeOf(key: ConfigKey): ConfigPlace | undefined;
}

/** What was found in a file: its value, or every mistake in it. */
export type ConfigReading<T> =
  | { readonly kind: "read"; readonly config: ConfigFile<T> }
  | { readonly kind: "problems"; readonly problems: readonly ConfigProblem[] };

/** Reads a YAML file by a schema; a missing file reads as an empty one. Mistakes are values, unreadable files are Faults. */
export async function tryReadConfig<T>(file: string, schema: z.ZodType<T>): Promise<ConfigReading<T>> {
  const text = await readText(file);
  const lines = new LineCounter();
  const document = parseDocument(text ?? "", { lineCounter: lines, uniqueKeys: true });
  const lineAt = (offset: number): number => Math.max(1, lines.linePos(offset).line);
  const syntax = document.errors.map((error) => ({
    file,
    line: lineAt(error.pos[0]),
    key: "",
    message: `is not YAML: ${error.message.split("\n")[0] ?? ""}`,
  }));
  if (syntax.length > 0) return { kind: "problems", problems: syntax };
  const placeOf = (key: ConfigKey): ConfigPlace | undefined => {
    const offset = offsetOf(document, key);
    return offset === undefined ? undefined : { file, line: lineAt(offset) };
  };
  const parsed = schema.safeParse(document.toJS({ maxAliasCount: 100 }) ?? {}, { reportInput: true });
  if (parsed.success) {
    return { kind: "read", config: { value: parsed.data, file, exists: text !== undefined, placeOf } };
  }
  const problems = parsed.error.issues.flatMap((issue) => toProblems(issue, schema));
  return {
    kind: "problems",
    problems: problems.map((problem) => ({
      ...problem,
      key: problem.path.join("."),
      file,
      line: placeOf(problem.path)?.line ?? placeOf(problem.path.slice(0, -1))?.line ?? 1,
    })),
  };
}

/** Like `tryReadConfig`; the first mistake is `INVALID_ARGUMENT` with file, line and field, all of them in details. */
export async function readConfig<T>(file: string, schema: z.ZodType<T>): Promise<ConfigFile<T>> {
  const reading = await tryReadConfig(file, schema);
  if (reading.kind === "read") return reading.config;
  throw faultFromProblems(reading.problems);
}

/** The mistakes of a file as one fault that names the first. */
export function faultFromProblems(problems: readonly ConfigProblem[]): Fault {
  const [first] = problems;
  if (!first) throw new Error("there is no problem to report");
  const more = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
  return new Fault("INVALID_ARGUMENT", `${formatProblem(first)}${more}`, {
    hint: first.hint ?? `mend line ${first.line} of ${first.file}`,
    details: {
      field: first.key,
      file: first.file,
      line: first.line,
      problems: problems.slice(0, 100).map((problem) => ({ ...problem })),
    },
  });
}

/** One mistake as a line: file, line, key, what is wrong. */
export function formatProblem(problem: ConfigProblem): string {
  const key = problem.key === "" ? "the file" : problem.key;
  return `${problem.file}:${problem.line}: ${key} ${problem.message}`;
}

async function readText(file: string): Promise<string | undefined> {
  try {
    const handle = await open(file, "r");
    try {
      const { size } = await handle.stat();
      if (size > configMaxBytes) {
        throw new Fault(
          "TOO_LARGE",
          `${file} has ${size} bytes; a configuration has at most ${configMaxBytes}`,
          {
            details: { limit: configMaxBytes, actual: size },
          },
        );
      }
      return await handle.readFile("utf8");
    } finally {
      await handle.close();
    }
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return undefined;
    throw faultFromErrno(error, file);
  }
}

/** Where a key stands in the text; the key itself, not its value, so that a missing value has a line too. */
function offsetOf(document: Document.Parsed, key: ConfigKey): number | undefined {
  const last = key.at(-1);
  if (last === undefined) return document.contents?.range[0];
  const parent = key.length === 1 ? document.contents : document.getIn(key.slice(0, -1), true);
  if (isMap(parent)) {
    const pair = parent.items.find(
      (item) => isPair(item) && isNode(item.key) && String(item.key) === String(last),
    );
    return pair && isNode(pair.key) ? pair.key.range?.[0] : undefined;
  }
  const found = document.getIn(key, true);
  return isNode(found) ? found.range?.[0] : undefined;
}

interface RawProblem {
  readonly path: ConfigKey;
  readonly message: string;
  readonly hint?: string;
}

function toProblems(issue: z.core.$ZodIssue, schema: z.ZodType): readonly RawProblem[] {
  const path = issue.path.filter((part) => typeof part !== "symbol");
  if (issue.code === "unrecognized_keys") {
    const known = knownKeys(schema, path);
    return issue.keys.map((key) => {
      const nearest = findNearest(key, known);
      const hint = nearest ? `did you mean ${nearest}?` : `known here: ${known.join(", ")}`;
      return { path: [...path, key], message: "is no setting", hint };
    });
  }
  return [{ path, message: `is wrong: ${lowerFirst(issue.message)}` }];
}

/** The keys that a schema knows at a place; none when it takes any. */
function knownKeys(schema: z.ZodType, path: ConfigKey): readonly string[] {
  let at: unknown = schema;
  for (const part of path) at = childOf(unwrap(at), part);
  const { shape } = definitionOf(unwrap(at));
  return typeof shape === "object" && shape !== null ? Object.keys(shape) : [];
}

function childOf(schema: unknown, part: string | number): unknown {
  const definition = definitionOf(schema);
  const { shape, element, valueType } = definition;
  if (typeof shape === "object" && shape !== null) return Object.getOwnPropertyDescriptor(shape, part)?.value;
  return element ?? valueType;
}

function unwrap(schema: unknown): unknown {
  let at = schema;
  for (let depth = 0; depth < 8; depth += 1) {
    const { innerType, in: input } = definitionOf(at);
    const inner = innerType ?? input;
    if (inner === undefined) return at;
    at = inner;
  }
  return at;
}

function definitionOf(
  schema: unknown,
): Readonly<Record<"shape" | "element" | "valueType" | "innerType" | "in", unknown>> {
  const none = {
    shape: undefined,
    element: undefined,
    valueType: undefined,
    innerType: undefined,
    in: undefined,
  };
  if (typeof schema !== "object" || schema === null || !("def" in schema)) return none;
  return typeof schema.def === "object" && schema.def !== null ? { ...none, ...schema.def } : none;
}

function lowerFirst(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}
