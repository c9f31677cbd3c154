import { type JsonValue as WireJson, toJson as messageToJson } from "@bufbuild/protobuf";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import { Audit, type AuditEntry, type AuditQueryRequest } from "../../shared/gen/fairlead/v1/audit_pb.ts";
import { noDeadline } from "../../shared/rpc/deadline.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { parseDurationMs } from "../../shared/terminal/duration.ts";
import { toTime } from "../../shared/terminal/json.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { auditVerify } from "./audit-verify.ts";
import { openGateway } from "./open-gateway.ts";
import { writeNewFile } from "./write-new-file.ts";

const filters = [
  { flags: "--node <node>", text: "only what concerns this node: alias, id or id prefix" },
  { flags: "--session <id>", text: "only what belongs to this session" },
  { flags: "--call <id>", text: "only what belongs to this call" },
  { flags: "--action <words>", text: "only this action, or those that begin with it: nodes, nodes.rename" },
  { flags: "--since <time>", text: "not before this time: 2h, 30d, or 2026-01-31T12:00:00Z" },
];

const defaultTail = 20;
const defaultLimit = 1_000;

/** The `audit` commands. */
export const commands: readonly CommandModule[] = [
  {
    words: "audit tail",
    summary: "the last records of what happened, and with --follow those that come",
    example: "fairlead audit tail --follow --json",
    options: [
      { flags: "--last <n>", text: `so many of the last records (default ${defaultTail})` },
      { flags: "--follow", text: "stay, and print each record as it is made" },
      ...filters,
    ],
    run: async (input, runtime) => {
      const last = input.integer("last", { min: 1, max: 1_000_000 }) ?? defaultTail;
      const query = { ...toQuery(input, runtime), last, follow: input.flag("follow") };
      for await (const entry of records(query, runtime)) {
        await runtime.output.event(toJson(entry), () => [toLine(entry)]);
      }
    },
  },
  {
    words: "audit query",
    summary: "the records that fit, oldest first",
    example: "fairlead audit query --node devbox --since 2h",
    options: [
      ...filters,
      { flags: "--limit <n>", text: `at most so many (default ${defaultLimit}); export takes all` },
    ],
    run: async (input, runtime) => {
      const limit = input.integer("limit", { min: 1, max: 100_000 }) ?? defaultLimit;
      const found: AuditEntry[] = [];
      let hasMore = false;
      for await (const entry of records(toQuery(input, runtime), runtime)) {
        hasMore = found.length === limit;
        if (hasMore) break;
        found.push(entry);
      }
      await runtime.output.result({ records: found.map(toJson), hasMore }, () => found.map(toLine));
      if (hasMore) runtime.output.note(`note: more fit than ${limit}; narrow it, or say --limit`);
    },
  },
  auditVerify,
  {
    words: "audit export",
    summary: "write the records that fit into a file, one JSON object a line",
    example: "fairlead audit export audit.jsonl --since 30d",
    args: [{ name: "<file>", text: "where to; it must not be there yet" }],
    options: filters,
    run: async (input, runtime) => {
      const file = input.argument("file");
      let count = 0;
      const lines = async function* (): AsyncGenerator<Uint8Array> {
        for await (const entry of records(toQuery(input, runtime), runtime)) {
          count += 1;
          yield Buffer.from(`${JSON.stringify(toJson(entry))}\n`);
        }
      };
      await writeNewFile(file, lines());
      await runtime.output.result({ file, records: count }, () => [`${count} records are in ${file}`]);
    },
  },
];

type Query = Partial<
  Pick<AuditQueryRequest, "node" | "session" | "call" | "action" | "sinceMs" | "last" | "follow">
>;

function toQuery(input: CommandInput, runtime: Runtime): Query {
  const since = input.text("since");
  return {
    node: input.text("node") ?? "",
    session: input.text("session") ?? "",
    call: input.text("call") ?? "",
    action: input.text("action") ?? "",
    sinceMs: since === undefined ? 0n : BigInt(toSince(since, runtime.clock.now())),
  };
}

/** So long ago, or a time of its own. */
function toSince(text: string, now: number): number {
  if (!/^\d{4}-/.test(text)) return Math.max(1, now - parseDurationMs(text, "since"));
  const time = Date.parse(text);
  if (!Number.isNaN(time)) return Math.max(1, time);
  throw new Fault("INVALID_ARGUMENT", `--since is ${text}, which is no time`, {
    hint: "write it like 2h, 30d or 2026-01-31T12:00:00Z",
    details: { field: "since", actual: text },
  });
}

async function* records(query: Query, runtime: Runtime): AsyncGenerator<AuditEntry> {
  await using gateway = await openGateway(runtime);
  // It ends when its reader does, unless --deadline says otherwise.
  const answers = gateway.client(Audit).query(query, { deadlineMs: noDeadline, ...gateway.call() });
  for await (const { records: some } of answers) yield* some;
}

function toJson(entry: AuditEntry): { readonly [key: string]: JsonValue } {
  const optional: readonly (readonly [string, JsonValue | undefined])[] = [
    ["address", given(entry.address)],
    ["nodeId", given(entry.node)],
    ["sessionId", given(entry.session)],
    ["callId", given(entry.call)],
    ["before", fromValue(entry.before)],
    ["after", fromValue(entry.after)],
    ["details", fromValue(entry.details)],
  ];
  return {
    sequence: Number(entry.sequence),
    time: toTime(entry.timeMs),
    actor: entry.actor,
    action: entry.action,
    target: entry.target,
    outcome: entry.outcome,
    ...Object.fromEntries(optional.filter(([, value]) => value !== undefined)),
  };
}

function given(text: string): string | undefined {
  return text === "" ? undefined : text;
}

function fromValue(value: Value | undefined): JsonValue | undefined {
  if (value === undefined) return undefined;
  const json: WireJson = messageToJson(ValueSchema, value);
  return json;
}

function toLine(entry: AuditEntry): string {
  const change = [fromValue(entry.before), fromValue(entry.after)]
    .filter((value) => value !== undefined)
    .map((value) => JSON.stringify(value))
    .join(" -> ");
  const parts = [toTime(entry.timeMs) ?? "", entry.actor, entry.action, entry.target, entry.outcome, change];
  return parts.filter((part) => part !== "").join("  ");
}
