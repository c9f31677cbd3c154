import type { JsonValue } from "../fault/fault.ts";
import { listPage } from "../names/list-page.ts";

/** What a tool does to the world, which is what policy goes by. */
export type ToolEffect = "read" | "write" | "execute";

/** What a repeat of a call may do. */
export type ToolCallClass = "idempotent" | "job" | "at_most_once";

/** A JSON Schema. */
export type JsonSchema = { readonly [key: string]: JsonValue };

/** One of the tools that act on a workspace. */
export interface CoreTool {
  readonly name: CoreToolName;
  readonly title: string;
  readonly description: string;
  /** Of the arguments, without the workspace. */
  readonly inputSchema: JsonSchema;
  readonly effect: ToolEffect;
  readonly callClass: ToolCallClass;
}

/** The names of the core tools. */
export type CoreToolName = "exec" | "list" | "read" | "write";

/** Lines that `read` gives when the caller does not say how many. */
export const defaultReadLines = 2_000;

/** Most lines that `read` gives. */
export const maxReadLines = 100_000;

/** Most bytes of text that `write` takes: what fits in one message with room for the rest. */
export const maxWriteBytes = 3_145_728;

/** Longest time that a command may ask for, in milliseconds. */
export const maxCommandMs = 86_400_000;

const path = (description: string): JsonSchema => ({ type: "string", maxLength: 4096, description });

const object = (properties: JsonSchema, required: readonly string[] = []): JsonSchema => ({
  type: "object",
  properties,
  ...(required.length === 0 ? {} : { required: [...required] }),
  additionalProperties: false,
});

/** The core tools in order of their names: what a node publishes under its prefix and a bound session has as its own. */
export const coreTools: readonly CoreTool[] = [
  {
    name: "exec",
    title: "Run a command",
    description:
      "Runs a command in the workspace and gives its output and exit status. `command` is a line for the shell, or a " +
      "list of words that are passed as they are. The command reads the end of file unless `stdin` is given, and what " +
      "it leaves running is ended with it.",
    inputSchema: object(
      {
        command: {
          description: "A line for the shell, or the program and its arguments.",
          anyOf: [
            { type: "string", minLength: 1, maxLength: 131_072 },
            { type: "array", minItems: 1, maxItems: 4_096, items: { type: "string", maxLength: 131_072 } },
          ],
        },
        cwd: path("Folder of the workspace to run in; its root by default."),
        stdin: { type: "string", maxLength: 1_048_576, description: "What the command reads." },
        timeoutMs: {
          type: "integer",
          minimum: 1,
          maximum: maxCommandMs,
          description: "After so many milliseconds the command is ended.",
        },
        env: {
          type: "object",
          maxProperties: 256,
          additionalProperties: { type: "string", maxLength: 32_768 },
          description: "Variables to add; what decides where programs and libraries are found is left out.",
        },
      },
      ["command"],
    ),
    effect: "execute",
    callClass: "job",
  },
  {
    name: "list",
    title: "List a folder",
    description:
      "Lists a folder of the workspace, or everything below it, in order of the paths. A page that does not end the " +
      "list has a cursor to go on with.",
    inputSchema: object({
      path: path("The folder; the root by default."),
      recursive: { type: "boolean", description: "Also what lies below." },
      limit: { type: "integer", minimum: 1, maximum: listPage.maxEntries, description: "Entries of a page." },
      cursor: { type: "string", maxLength: 8_192, description: "Where the page before ended." },
    }),
    effect: "read",
    callClass: "idempotent",
  },
  {
    name: "read",
    title: "Read a file",
    description:
      "Reads lines of a text file of the workspace and says the digest of the whole file, which `write` takes as " +
      "`ifMatch`.",
    inputSchema: object(
      {
        path: path("The file."),
        from: { type: "integer", minimum: 1, description: "First line, from 1." },
        lines: { type: "integer", minimum: 1, maximum: maxReadLines, description: "At most so many lines." },
      },
      ["path"],
    ),
    effect: "read",
    callClass: "idempotent",
  },
  {
    name: "write",
    title: "Write a file",
    description:
      "Writes a whole text file of the workspace; missing folders are made. With `ifMatch` it fails with CONFLICT when " +
      "the file has changed since it had that digest; `absent` fails when there is one.",
    inputSchema: object(
      {
        path: path("The file."),
        content: { type: "string", maxLength: maxWriteBytes, description: "The whole new content." },
        ifMatch: {
          type: "string",
          pattern: "^(?:sha256:[0-9a-f]{64}|absent|any)$",
          description: "Digest that the file must have, `absent`, or `any` (the default).",
        },
      },
      ["path", "content"],
    ),
    effect: "write",
    callClass: "at_most_once",
  },
];

/** The schema that a node publishes: a core tool's with the workspace beside it. */
export function withWorkspace(schema: JsonSchema): JsonSchema {
  const properties = schema["properties"] as JsonSchema;
  return {
    ...schema,
    properties: {
      ...properties,
      workspace: {
        type: "string",
        maxLength: 63,
        description: "The workspace; that of the session by default, else the only one of the machine.",
      },
    },
  };
}
