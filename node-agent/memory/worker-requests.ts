import { Fault } from "../../shared/fault/fault.ts";

/** What one JSON request asks for. */
export type MemoryRequest =
  | { readonly operation: "list" }
  | { readonly operation: "inspect"; readonly paths: readonly string[] }
  | {
      readonly operation: "read";
      readonly path: string;
      readonly from: number;
      readonly lines: number;
      readonly maxChars: number;
    };

/** Most paths of one inspection. */
export const maxInspectedPaths = 10_000;

const fields: Readonly<Record<string, readonly string[]>> = {
  list: [],
  inspect: ["paths"],
  read: ["path", "from", "lines", "maxChars"],
};

/** Text as a request; what is malformed, unknown or of a wrong type is `INVALID_ARGUMENT` with `details.field`. */
export function parseMemoryRequest(text: string): MemoryRequest {
  const request = parseObject(text);
  const operation = request["operation"];
  const known =
    typeof operation === "string" && Object.hasOwn(fields, operation) ? fields[operation] : undefined;
  if (!known) throw invalid("operation", `operation is one of ${Object.keys(fields).join(", ")}`);
  for (const field of Object.keys(request)) {
    if (field !== "operation" && !known.includes(field))
      throw invalid(field, `${String(operation)} takes no field ${JSON.stringify(field.slice(0, 64))}`);
  }
  switch (operation) {
    case "inspect":
      return { operation, paths: parsePaths(request["paths"]) };
    case "read":
      return {
        operation,
        path: parseText("path", request["path"]),
        from: parseCount("from", request["from"] ?? 1),
        lines: request["lines"] === undefined ? 0 : parseCount("lines", request["lines"]),
        maxChars: parseCount("maxChars", request["maxChars"] ?? 65_536),
      };
    default:
      return { operation: "list" };
  }
}

/** The one line that begins a watch: `{"operation":"watch"}`. */
export function parseWatchRequest(text: string): void {
  const request = parseObject(text);
  if (request["operation"] !== "watch") throw invalid("operation", "operation is watch here");
  const other = Object.keys(request).find((field) => field !== "operation");
  if (other !== undefined) throw invalid(other, `watch takes no field ${JSON.stringify(other.slice(0, 64))}`);
}

function parseObject(text: string): Readonly<Record<string, unknown>> {
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (error) {
    throw new Fault("INVALID_ARGUMENT", "the request is not JSON", {
      details: { field: "request" },
      cause: error,
    });
  }
  if (typeof parsed === "object" && parsed !== null && !Array.isArray(parsed))
    return parsed as Record<string, unknown>;
  throw invalid("request", "the request is no JSON object");
}

function parsePaths(value: unknown): readonly string[] {
  if (!Array.isArray(value)) throw invalid("paths", "paths must be a list of texts");
  if (value.length > maxInspectedPaths) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `paths has ${value.length} entries; at most ${maxInspectedPaths} are allowed`,
      {
        details: { field: "paths", limit: maxInspectedPaths, actual: value.length },
      },
    );
  }
  return value.map((path) => parseText("paths", path));
}

function parseText(field: string, value: unknown): string {
  if (typeof value === "string") return value;
  throw invalid(field, `${field} must be text`);
}

function parseCount(field: string, value: unknown): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= 0x7fff_ffff)
    return value;
  throw invalid(field, `${field} must be a whole number from 1 on`);
}

function invalid(field: string, message: string): Fault {
  return new Fault("INVALID_ARGUMENT", message, { details: { field: field.slice(0, 64) } });
}
