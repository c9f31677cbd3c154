import { Fault, type JsonValue } from "../fault/fault.ts";

/** JSON that was typed; `INVALID_ARGUMENT` names the option and where the text stops being JSON. */
export function parseJson(text: string, field: string): JsonValue {
  try {
    return JSON.parse(text) as JsonValue;
  } catch (error) {
    const why = error instanceof Error ? error.message : "it could not be read";
    throw new Fault("INVALID_ARGUMENT", `--${field} is not JSON: ${why}`, {
      details: { field },
      cause: error,
    });
  }
}

/** Whether a JSON value is an object. */
export function isJsonObject(value: JsonValue): value is { readonly [key: string]: JsonValue } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
