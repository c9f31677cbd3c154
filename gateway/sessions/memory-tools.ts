import type { JsonObject, JsonValue } from "@bufbuild/protobuf";
import type { JsonSchema } from "../../shared/core-tools/core-tools.ts";
import { describeSchema } from "../tools/descriptor.ts";
import type { HostCall, HostTool } from "../tools/host-tool.ts";
import { fitWait, type SessionMemory } from "./session-memory.ts";

const workspace: JsonSchema = {
  type: "string",
  maxLength: 200,
  description: "NODE:/NAME; that of the session by default.",
};

const searchSchema: JsonSchema = {
  type: "object",
  properties: {
    query: { type: "string", minLength: 1, maxLength: 2_000, description: "The words to look for." },
    workspace,
    limit: {
      type: "integer",
      minimum: 1,
      maximum: 100,
      description: "At most so many passages; 10 by default.",
    },
    waitFresh: { type: "boolean", description: "Wait until what was just written is in the index." },
  },
  required: ["query"],
  additionalProperties: false,
};

const getSchema: JsonSchema = {
  type: "object",
  properties: {
    path: {
      type: "string",
      minLength: 1,
      maxLength: 4_096,
      description: "The memory file, as a search names it.",
    },
    workspace,
    from: { type: "integer", minimum: 1, description: "First line, from 1." },
    lines: { type: "integer", minimum: 1, maximum: 100_000, description: "At most so many lines." },
    digest: {
      type: "string",
      maxLength: 71,
      description: "Of a hit: the answer says whether the file has changed.",
    },
  },
  required: ["path"],
  additionalProperties: false,
};

/** The tools `memory_get` and `memory_search` of the gateway. */
export function createMemoryTools(memory: Pick<SessionMemory, "get" | "search">): readonly HostTool[] {
  const common = { effect: "read", callClass: "idempotent", asks: false } as const;
  return [
    {
      description: {
        name: "memory_get",
        title: "Read memory",
        description:
          "Reads lines of a memory file of the workspace (MEMORY.md, memory/**/*.md) from its node.",
        ...describeSchema(getSchema),
        ...common,
      },
      run: (call) => get(memory, call),
    },
    {
      description: {
        name: "memory_search",
        title: "Search memory",
        description:
          "Searches the memory files of the workspace (MEMORY.md, memory/**/*.md) and gives the best passages with file, " +
          "lines and digest, and how fresh the index is.",
        ...describeSchema(searchSchema),
        ...common,
      },
      run: (call) => search(memory, call),
    },
  ];
}

async function search(
  memory: Pick<SessionMemory, "search">,
  call: HostCall,
): Promise<{ readonly text: string; readonly details: JsonObject }> {
  const given = call.arguments;
  const found = await memory.search(call.caller, {
    query: textOf(given["query"]) ?? "",
    workspace: textOf(given["workspace"]),
    limit: numberOf(given["limit"]),
    waitFresh: given["waitFresh"] === true,
    waitMs: fitWait(0, call.deadlineMs),
    vectorsMs: fitWait(0, call.deadlineMs),
    signal: call.signal,
  });
  const hits = found.hits ?? [];
  const passages = hits.map(
    (hit) =>
      `${hit.workspace ?? ""}/${hit.path ?? ""}:${hit.firstLine ?? 0}-${hit.lastLine ?? 0}\n${hit.text ?? ""}`,
  );
  const stale = (found.workspaces ?? [])
    .filter((one) => one.fresh !== true)
    .map((one) => one.workspace ?? "");
  const isByKeyword = found.partial === true;
  const notes = [
    ...(hits.length === 0 ? ["nothing was found"] : []),
    ...(stale.length === 0 ? [] : [`(the index may lack the latest changes of ${stale.join(", ")})`]),
    ...(isByKeyword ? ["(by the words only: the search by meaning did not answer)"] : []),
  ];
  return {
    text: [...passages, ...notes].join("\n\n"),
    details: {
      hits: hits.map(toPlain),
      partial: isByKeyword,
      workspaces: (found.workspaces ?? []).map(toPlain),
    },
  };
}

async function get(
  memory: Pick<SessionMemory, "get">,
  call: HostCall,
): Promise<{ readonly text: string; readonly details: JsonObject }> {
  const given = call.arguments;
  const answer = await memory.get(call.caller, {
    path: textOf(given["path"]) ?? "",
    workspace: textOf(given["workspace"]),
    from: numberOf(given["from"]),
    lines: numberOf(given["lines"]),
    digest: textOf(given["digest"]),
    signal: call.signal,
  });
  const { text = "", ...details } = answer;
  return { text, details: toPlain(details) as JsonObject };
}

function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function numberOf(value: JsonValue | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}

/** A message or its plain form as JSON: whole numbers become numbers, marks of the library go. */
function toPlain(value: unknown): JsonValue {
  if (typeof value === "bigint") return Number(value);
  if (Array.isArray(value)) return value.map(toPlain);
  if (typeof value !== "object" || value === null) return (value ?? null) as JsonValue;
  const entries = Object.entries(value).filter(([key, inner]) => !key.startsWith("$") && inner !== undefined);
  return Object.fromEntries(entries.map(([key, inner]) => [key, toPlain(inner)]));
}
