import {
  isAlias,
  isMap,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  type YAMLMap,
} from "yaml";
import type { JsonValue } from "../fault/fault.ts";
import type { Diagnostic } from "./diagnostic.ts";

/** A mapping as it was written: values with the lines on which their keys stand. */
export interface YamlFields {
  /** Plain JSON; made without any key's setter, so that `__proto__` is a field like any other. */
  readonly values: ReadonlyMap<string, JsonValue>;
  /** The line of the file of a field, by its dotted path (`requires.bins`). */
  readonly lines: ReadonlyMap<string, number>;
}

/** Most values in one front matter, those that aliases repeat included: what ends an alias bomb. */
const maxNodes = 5000;
const maxNesting = 16;

/**
 * `yaml` (YAML 1.2, core schema) as a mapping. `firstLine` is the line of the file that it begins on. Whatever is wrong
 * comes back as one diagnostic with its line; nothing is guessed, and no input costs more than its length allows.
 */
export function parseBoundedYaml(yaml: string, firstLine: number): YamlFields | Diagnostic {
  const lineCounter = new LineCounter();
  const toLine = (offset: number): number => lineCounter.linePos(offset).line + firstLine - 1;
  try {
    // The parser goes down by recursion: what could exhaust the stack is refused as text.
    refuseDeepNesting(yaml, firstLine);
    const document = parseDocument(yaml, {
      lineCounter,
      prettyErrors: false,
      uniqueKeys: false,
      logLevel: "silent",
    });
    const error = document.errors[0];
    if (error)
      throw new YamlFlaw(toLine(error.pos[0]), describe(error.code, error.message), hintFor(error.code));
    return new Reader(toLine).readFields(document.contents, firstLine);
  } catch (error) {
    if (error instanceof YamlFlaw) return error.diagnostic;
    if (error instanceof RangeError)
      return new YamlFlaw(firstLine, "the front matter is nested too deeply", flat).diagnostic;
    throw error;
  }
}

const flat = "write the front matter as a flat list of fields";

class YamlFlaw extends Error {
  readonly diagnostic: Diagnostic;

  constructor(line: number, message: string, hint: string) {
    super(message);
    this.diagnostic = { severity: "error", line, message, hint };
  }
}

class Reader {
  readonly #toLine: (offset: number) => number;
  readonly #lines = new Map<string, number>();
  /** Anchors met so far, in the order of the text: the library's own look-up walks the whole document each time. */
  readonly #anchors = new Map<string, Node>();
  #nodes = 0;

  constructor(toLine: (offset: number) => number) {
    this.#toLine = toLine;
  }

  readFields(contents: Node | null, firstLine: number): YamlFields {
    if (!isMap(contents)) {
      throw new YamlFlaw(
        firstLine,
        "the front matter holds no fields",
        "write one field a line, as in name: my-skill",
      );
    }
    return { values: this.#readMap(contents as YAMLMap, { path: "", depth: 0 }), lines: this.#lines };
  }

  #readMap(map: YAMLMap, at: Place): Map<string, JsonValue> {
    const values = new Map<string, JsonValue>();
    for (const pair of map.items) {
      if (!isPair(pair)) continue;
      const line = this.#lineOf(pair.key) ?? this.#lineOf(map) ?? 0;
      const key = isScalar(pair.key) ? String(pair.key.value) : undefined;
      if (key === undefined) throw new YamlFlaw(line, "a field's name is not plain text", flat);
      if (values.has(key)) throw new YamlFlaw(line, `the field ${key} stands twice`, "keep one of the two");
      const path = at.path === "" ? key : `${at.path}.${key}`;
      this.#lines.set(path, line);
      values.set(key, this.#read(pair.value as Node | null, { path, depth: at.depth + 1 }));
    }
    return values;
  }

  #read(node: Node | null, at: Place): JsonValue {
    this.#nodes += 1;
    const line = this.#lineOf(node) ?? 1;
    if (this.#nodes > maxNodes) {
      throw new YamlFlaw(
        line,
        `the front matter holds more than ${maxNodes} values`,
        "remove aliases, or move text into the body",
      );
    }
    if (at.depth > maxNesting)
      throw new YamlFlaw(line, `the front matter is nested more than ${maxNesting} levels`, flat);
    if (node === null) return null;
    if (isAlias(node)) return this.#readAlias(node.source, { at, line });
    if (node.anchor !== undefined) this.#anchors.set(node.anchor, node);
    if (isMap(node)) return toObject(this.#readMap(node as YAMLMap, at));
    if (isSeq(node))
      return node.items.map((item) =>
        this.#read(item as Node | null, { path: at.path, depth: at.depth + 1 }),
      );
    return isScalar(node) ? toJson(node.value) : null;
  }

  #readAlias(name: string, met: { readonly at: Place; readonly line: number }): JsonValue {
    const node = this.#anchors.get(name);
    if (!node) throw new YamlFlaw(met.line, `the alias ${name} stands for nothing`, "write the value itself");
    return this.#read(node, { path: met.at.path, depth: met.at.depth + 1 });
  }

  #lineOf(node: unknown): number | undefined {
    const range = typeof node === "object" && node !== null && "range" in node ? node.range : undefined;
    const [offset] = Array.isArray(range) ? (range as number[]) : [];
    return offset === undefined ? undefined : this.#toLine(offset);
  }
}

interface Place {
  readonly path: string;
  readonly depth: number;
}

/** An object without a prototype's setters in its way. */
export function toObject(values: ReadonlyMap<string, JsonValue>): { readonly [key: string]: JsonValue } {
  const object: { [key: string]: JsonValue } = {};
  for (const [key, value] of values) {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  }
  return object;
}

function toJson(value: unknown): JsonValue {
  if (value === null || typeof value === "boolean" || typeof value === "string") return value;
  if (typeof value === "number") return Number.isFinite(value) ? value : String(value);
  if (typeof value === "bigint") return value.toString();
  throw new Error("the core schema gave a value that JSON cannot hold");
}

function refuseDeepNesting(yaml: string, firstLine: number): void {
  // One list in another, all on one line.
  if (/(?:[-?] +){64}/.test(yaml))
    throw new YamlFlaw(firstLine, "the front matter is nested too deeply", flat);
  let depth = 0;
  for (let index = 0; index < yaml.length; index += 1) {
    const unit = yaml.charCodeAt(index);
    if (unit === 0x5b || unit === 0x7b) depth += 1;
    else if (unit === 0x5d || unit === 0x7d) depth -= 1;
    if (depth <= 256) continue;
    throw new YamlFlaw(firstLine, "the front matter is nested too deeply", flat);
  }
}

function describe(code: string, message: string): string {
  switch (code) {
    case "BLOCK_AS_IMPLICIT_KEY":
      return "a value holds a colon and a space outside quotes";
    case "TAB_AS_INDENT":
      return "a line is indented with a tab";
    case "BAD_ALIAS":
      return "an alias is malformed or stands for nothing";
    case "MULTIPLE_DOCS":
      return "the front matter holds a document end";
    default:
      return `the front matter is not valid YAML: ${oneLine(message)}`;
  }
}

function hintFor(code: string): string {
  switch (code) {
    case "BLOCK_AS_IMPLICIT_KEY":
      return 'put the value in quotes, as in description: "Use it: now"';
    case "TAB_AS_INDENT":
      return "indent with spaces";
    default:
      return "put text with special characters in quotes";
  }
}

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").slice(0, 200);
}
