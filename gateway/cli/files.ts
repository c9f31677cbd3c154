import { Fault } from "../../shared/fault/fault.ts";
import {
  Files,
  type Entry,
  type EntryProblem,
  type FilesListResponse,
} from "../../shared/gen/fairlead/v1/files_pb.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { bootstrapOption } from "./files/bootstrap-option.ts";
import { catCommand } from "./files/cat.ts";
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
import { syncCommand } from "./files/sync/sync.ts";
import { watchCommand } from "./files/watch.ts";
import { openGateway } from "./open-gateway.ts";

/** The columns of entries. */
const entryColumns = ["MODE", "SIZE", "MODIFIED", "KIND", "PATH"];

/** Entries that `ls` shows when no limit is named. */
const listedByDefault = 100_000;
const pageEntries = 1_000;
const path = { name: "<path>", text: "NODE:/WORKSPACE/PATH" } as const;

const modules: readonly CommandModule[] = [
  {
    words: "files ls",
    summary: "entries of a folder on a node",
    example: "fairlead files ls devbox:/app/src --recursive",
    args: [path],
    options: [
      { flags: "--recursive", text: "also what lies below; links are not entered" },
      { flags: "--limit <n>", text: `at most so many entries (default ${listedByDefault})` },
      { flags: "--cursor <c>", text: "go on where an earlier listing ended" },
      bootstrapOption,
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
  catCommand,
  getCommand,
  putCommand,
  syncCommand,
  ...changeCommands,
  watchCommand,
];

/** The `files` commands: about each policy may ask a person. */
export const commands: readonly CommandModule[] = modules.map((module) => ({ ...module, asks: true }));

async function list(input: CommandInput, runtime: Runtime): Promise<number> {
  const remote = parseRemote(input.argument("path"));
  const limit = input.integer("limit", { min: 1, max: 1_000_000 }) ?? listedByDefault;
  const recursive = input.flag("recursive");
  const bootstrap = input.flag("bootstrap");
  await using gateway = await openGateway(runtime);
  const files = gateway.client(Files);
  const entries: Entry[] = [];
  const problems: EntryProblem[] = [];
  let page: FilesListResponse | undefined;
  let cursor = input.text("cursor") ?? "";
  do {
    const { workspace, path: folder } = remote;
    const wanted = Math.min(pageEntries, limit - entries.length);
    page = await files.list(
      { workspace, path: folder, recursive, limit: wanted, cursor, bootstrap },
      gateway.call(),
    );
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
