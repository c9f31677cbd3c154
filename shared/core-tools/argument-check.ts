import { Ajv2020, type ErrorObject, type Options, type ValidateFunction } from "ajv/dist/2020.js";
import { Fault, type JsonValue } from "../fault/fault.ts";
import type { JsonSchema } from "./core-tools.ts";

/** Arguments of a call. */
export type ToolArguments = { readonly [key: string]: JsonValue };

/** Checks arguments against a schema: fails with `INVALID_ARGUMENT` and `details.field`. */
export type ArgumentCheck = (given: ToolArguments) => void;

const messageBytes = 200;

const options: Options = {
  strict: false,
  validateFormats: false,
  allErrors: false,
  addUsedSchema: false,
  logger: false,
  ownProperties: true,
};

/** What a schema may say is compiled once: it costs forty times as much as a usual schema. */
let dialect: Ajv2020 | undefined;

/**
 * A check made of a schema. No address is ever opened: a reference out of the schema, or a schema that is none, fails
 * here with `INVALID_ARGUMENT`. Unknown keywords and formats are notes.
 */
export function compileArguments(schema: JsonSchema): ArgumentCheck {
  const { $schema: _dialect, $id: _id, ...plain } = schema;
  dialect ??= new Ajv2020(options);
  let validate: ValidateFunction;
  try {
    if (dialect.validateSchema(plain) !== true) throw new Error(dialect.errorsText(dialect.errors));
    // One of its own for each: what one schema names is never found by another.
    validate = new Ajv2020({ ...options, meta: false, validateSchema: false }).compile(plain);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message.slice(0, messageBytes) : "it is no schema";
    throw new Fault("INVALID_ARGUMENT", `the schema of the arguments cannot be used: ${why}`, {
      details: { field: "inputSchema" },
      cause,
    });
  }
  return (given) => {
    if (validate(given)) return;
    throw toFault(validate.errors ?? []);
  };
}

function toFault(errors: readonly ErrorObject[]): Fault {
  const error = errors[0];
  if (!error) return new Fault("INVALID_ARGUMENT", "the arguments do not fit the tool's schema");
  const field = fieldOf(error);
  const what = field === "" ? "the arguments" : `the argument ${field}`;
  return new Fault("INVALID_ARGUMENT", `${what} ${wordsOf(error)}`, {
    details: { field: field === "" ? "arguments" : field, rule: error.keyword },
  });
}

function fieldOf(error: ErrorObject): string {
  const at = error.instancePath
    .split("/")
    .slice(1)
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
  const { missingProperty, additionalProperty } = error.params as Record<string, unknown>;
  const more = missingProperty ?? additionalProperty;
  return [...at, ...(typeof more === "string" ? [more] : [])].join(".").slice(0, messageBytes);
}

function wordsOf(error: ErrorObject): string {
  if (error.keyword === "required") return "is missing";
  if (error.keyword === "additionalProperties") return "is not known";
  return (error.message ?? "is not as the tool wants it").slice(0, messageBytes);
}
