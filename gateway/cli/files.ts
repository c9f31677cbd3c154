import { createDigester } from "../../shared/content/digest.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { readToLimit } from "../../shared/flow/read-to-limit.ts";
import {
  Files,
  type Entry,
  type EntryProblem,
  type FilesListResponse,
  type FilesReadResponse,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { maxDeadlineMs } from "../../shared/rpc/deadline.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { changeCommands } from "./files/change.ts";
import { getCommand } from "./files/get.ts";
import { putCommand } from "./files/put.ts";
import {
  entryToJson,
  kindWord,
  modeText,
  parseRemote,
  problemToJson,
  sourceToJson,
  timeText,
} from "./files/remote.ts";
import { openGateway } from "./open-gateway.ts";

/** The columns of entries. */
const entryColumns = ["MODE", "SIZE", "MODIFIED", "KIND", "PATH"];

/** Entries that `ls` shows when no limit is named. */
const listedByDefault = 100_000;
const pageEntries = 1_000;
const path = { name: "<path>", text: "NODE:/WORKSPACE/PATH" } as const;

/** The `files` commands. */
export const commands: readonly CommandModule[] = [
  {
    words: "files ls",
    summary: "entries of a folder on a node",
    example: "fairlead files ls devbox:/app/src --recursive",
    args: [path],
    options: [
      { flags: "--recursive", text: "also what lies below; links are not entered" },
      { flags: "--limit <n>", text: `at most so many entries (default ${listedByDefault})` },
      { flags: "--cursor <c>", text: "go on where an earlier listing ended" },
    ],
    callsNode: true,
    run: list,
  },
  {
    words: "files stat",
    summary: "one entry, without reading it",
    example: "fairlead files stat devbox:/app/README.md",
    args: [path],
    callsNode: true,
    run: async (input, runtime) => {
      const { workspace, path: at } = parseRemote(input.argument("path"));
      await using gateway = await openGateway(runtime);
      const { entry, source } = await gateway.client(Files).stat({ workspace, path: at }, gateway.call());
      if (!entry) throw new Fault("INTERNAL", "the answer holds no entry");
      await runtime.output.result({ ...entryToJson(entry), source: sourceToJson(source) }, () => ({
        columns: entryColumns,
        whole: ["PATH"],
        rows: [
          [
            modeText(entry.mode),
            String(entry.sizeBytes),
            timeText(entry.modifiedNs),
            kindWord(entry.kind),
            entry.path,
          ],
        ],
      }));
    },
  },
  {
    words: "files cat",
    summary: "a file's bytes, to standard output",
    example: "fairlead files cat devbox:/app/log.txt --offset 1000 --length 500",
    args: [path],
    options: [
      { flags: "--offset <n>", text: "first byte (default 0)" },
      { flags: "--length <n>", text: "at most so many bytes (default all)" },
    ],
    callsNode: true,
    run: cat,
  },
  getCommand,
  putCommand,
  ...changeCommands,
];

async function list(input: CommandInput, runtime: Runtime): Promise<number> {
  const remote = parseRemote(input.argument("path"));
  const limit = input.integer("limit", { min: 1, max: 1_000_000 }) ?? listedByDefault;
  const recursive = input.flag("recursive");
  await using gateway = await openGateway(runtime);
  const files = gateway.client(Files);
  const entries: Entry[] = [];
  const problems: EntryProblem[] = [];
  let page: FilesListResponse | undefined;
  let cursor = input.text("cursor") ?? "";
  do {
    const { workspace, path: folder } = remote;
    const wanted = Math.min(pageEntries, limit - entries.length);
    page = await files.list({ workspace, path: folder, recursive, limit: wanted, cursor }, gateway.call());
    entries.push(...page.entries);
    problems.push(...page.problems);
    cursor = page.nextCursor;
  } while (cursor !== "" && entries.length < limit);
  const json = {
    path: remote.shown,
    entries: entries.map(entryToJson),
    problems: problems.map(problemToJson),
    nextCursor: cursor === "" ? null : cursor,
    source: sourceToJson(page.source),
  };
  await runtime.output.result(json, () => ({
    columns: entryColumns,
    whole: ["PATH"],
    rows: entries.map((entry) => [
      modeText(entry.mode),
      String(entry.sizeBytes),
      timeText(entry.modifiedNs),
      kindWord(entry.kind),
      entry.linkTarget === "" ? entry.path : `${entry.path} -> ${entry.linkTarget}`,
    ]),
    empty: `${remote.shown} is empty`,
  }));
  if (!runtime.output.json) {
    for (const { path: at, fault } of problems) runtime.output.note(`failed: ${at}: ${problemText(fault)}`);
    if (cursor !== "") runtime.output.note(`note: more follow; go on with --cursor ${cursor}`);
  }
  return problems.length > 0 ? 7 : 0;
}

function problemText(fault: EntryProblem["fault"]): string {
  if (!fault) return "no reason was given";
  const { message, code } = fromWireFault(fault);
  return `${message} (${code})`;
}

/** Largest content that is shown inside a JSON document, in bytes. */
const maxJsonContentBytes = 4 * 1024 * 1024;

async function cat(input: CommandInput, runtime: Runtime): Promise<void> {
  const remote = parseRemote(input.argument("path"));
  const range = { min: 0, max: Number.MAX_SAFE_INTEGER };
  const offset = input.integer("offset", range) ?? 0;
  const length = input.integer("length", range);
  await using gateway = await openGateway(runtime);
  const { workspace, path: file } = remote;
  const request = { workspace, path: file, offset: BigInt(offset), length: BigInt(length ?? 0) };
  const call = { ...gateway.call(), deadlineMs: runtime.deadlineMs ?? maxDeadlineMs };
  // A length of nothing is nothing; on the wire it would mean all.
  const chunks = length === 0 ? noChunks() : verified(gateway.client(Files).read(request, call));
  if (!runtime.output.json) {
    for await (const chunk of chunks) await runtime.output.bytes(chunk);
    return;
  }
  const content = await readToLimit(chunks, maxJsonContentBytes);
  const text = content.toString("utf8");
  const isText = Buffer.from(text, "utf8").equals(content);
  await runtime.output.result(
    {
      path: remote.shown,
      offset,
      sizeBytes: content.byteLength,
      encoding: isText ? "utf8" : "base64",
      content: isText ? text : content.toString("base64"),
    },
    () => [],
  );
}

async function* noChunks(): AsyncGenerator<Uint8Array, void> {
  // Nothing was asked for.
}

async function* verified(messages: AsyncIterable<FilesReadResponse>): AsyncGenerator<Uint8Array, void> {
  const digester = createDigester();
  for await (const { part } of messages) {
    if (part.case === "chunk") {
      digester.update(part.value);
      yield part.value;
    } else if (part.case === "trailer") {
      if (part.value.digest === digester.digest()) return;
      throw new Fault("INTEGRITY_FAILURE", "the bytes that arrived are not those that were sent");
    }
  }
  throw new Fault("INTEGRITY_FAILURE", "the file was cut off before its end", { hint: "repeat the command" });
}
