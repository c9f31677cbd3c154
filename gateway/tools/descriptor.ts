import type { JsonValue as PlainJson } from "@bufbuild/protobuf";
import { digestOf } from "../../shared/content/digest.ts";
import { compileArguments, type ArgumentCheck } from "../../shared/core-tools/argument-check.ts";
import type { JsonSchema, ToolCallClass, ToolEffect } from "../../shared/core-tools/core-tools.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { CallClass } from "../../shared/gen/fairlead/v1/options_pb.ts";
import type { ToolDescriptor } from "../../shared/gen/fairlead/v1/tools_pb.ts";
import { toCanonicalName } from "../policy/tool-names.ts";

/** A tool as its owner describes it, checked. */
export interface ToolDescription {
  /** The owner's own name for it, canonical. */
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: JsonSchema;
  /** Digest of the schema: another one is another contract. */
  readonly schemaDigest: string;
  readonly check: ArgumentCheck;
  readonly effect: ToolEffect;
  readonly callClass: ToolCallClass;
  /** Whether its machine wants a person to allow each call. */
  readonly asks: boolean;
}

/** A tool of a node. */
export interface NodeTool extends ToolDescription {
  /** As the node writes it. */
  readonly nodeName: string;
}

/** Bounds of what a node may publish. */
export const schemaLimits = { bytes: 65_536, depth: 32 } as const;

const nameShape = /^[a-z0-9](?:[a-z0-9_.-]{0,126}[a-z0-9])?$/;
const textCharacters = { title: 200, description: 8_192 } as const;

/** A node's descriptor, checked: what is wrong with it is the Fault. */
export function readDescriptor(descriptor: ToolDescriptor): NodeTool {
  const name = toCanonicalName(descriptor.name);
  if (!nameShape.test(name) || name !== descriptor.name.toLowerCase()) {
    throw new Fault(
      "INVALID_ARGUMENT",
      "a tool's name has 1 to 128 letters a to z, digits, dots, hyphens, underscores",
      {
        details: { field: "name" },
      },
    );
  }
  if (name.includes("__")) {
    throw new Fault("INVALID_ARGUMENT", "a tool's own name has no double underscore: that ends the prefix", {
      details: { field: "name" },
    });
  }
  const inputSchema = readSchema(descriptor.inputSchemaJson);
  return {
    name,
    nodeName: descriptor.name,
    title: descriptor.title.slice(0, textCharacters.title),
    description: descriptor.description.slice(0, textCharacters.description),
    ...describeSchema(inputSchema),
    effect: toEffect(descriptor.effect),
    callClass: toCallClass(descriptor.callClass),
    asks: descriptor.asks,
  };
}

/** What a schema brings: itself, its digest and its check. */
export function describeSchema(
  inputSchema: JsonSchema,
): Pick<ToolDescription, "inputSchema" | "schemaDigest" | "check"> {
  return {
    inputSchema,
    schemaDigest: digestOf(JSON.stringify(inputSchema)),
    check: compileArguments(inputSchema),
  };
}

function readSchema(text: string): JsonSchema {
  const sizeBytes = Buffer.byteLength(text);
  if (sizeBytes > schemaLimits.bytes) throw tooLarge("bytes", schemaLimits.bytes, sizeBytes);
  const depth = measureDepth(text);
  if (depth > schemaLimits.depth) throw tooLarge("levels", schemaLimits.depth, depth);
  const parsed = parseJson(text);
  if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw noSchema("is no object");
  const cleaned = clean(parsed) as JsonSchema;
  const { type = "object" } = cleaned;
  if (type !== "object") throw noSchema("does not describe an object");
  return { ...cleaned, type };
}

function parseJson(text: string): PlainJson {
  try {
    return JSON.parse(text === "" ? "{}" : text) as PlainJson;
  } catch (cause) {
    throw new Fault("INVALID_ARGUMENT", "the schema of the arguments is no JSON", {
      details: { field: "inputSchema" },
      cause,
    });
  }
}

function noSchema(why: string): Fault {
  return new Fault("INVALID_ARGUMENT", `the schema of the arguments ${why}`, {
    details: { field: "inputSchema" },
  });
}

function tooLarge(unit: string, limit: number, actual: number): Fault {
  return new Fault("TOO_LARGE", `the schema of the arguments has more than ${limit} ${unit}`, {
    details: { field: "inputSchema", limit, actual },
  });
}

/** Counted in the text, so that a hostile depth is never walked. */
function measureDepth(text: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]]/gs)) {
    if (token === "{" || token === "[") deepest = Math.max(deepest, (depth += 1));
    else if (token === "}" || token === "]") depth -= 1;
  }
  return deepest;
}

/** A copy without what would make a client act on a node's word: headers to fill, keys that reach a prototype. */
function clean(value: PlainJson): PlainJson {
  if (Array.isArray(value)) return value.map(clean);
  if (typeof value !== "object" || value === null) return value;
  const kept = Object.entries(value).filter(([key]) => key !== "x-mcp-header" && key !== "__proto__");
  return Object.fromEntries(kept.map(([key, inner]) => [key, clean(inner)]));
}

function toEffect(effect: string): ToolEffect {
  // What does not say what it does is taken for the worst.
  return effect === "read" || effect === "write" ? effect : "execute";
}

function toCallClass(callClass: CallClass): ToolCallClass {
  if (callClass === CallClass.IDEMPOTENT) return "idempotent";
  return callClass === CallClass.JOB ? "job" : "at_most_once";
}
