import { readFile } from "node:fs/promises";
import { faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import {
  Policy,
  type PolicyEntry,
  type PolicyExplainResponse,
  type PolicyShowResponse,
} from "../../shared/gen/fairlead/v1/policy_pb.ts";
import { isRemotePath, parseRemotePath } from "../../shared/names/remote-path.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { openGateway } from "./open-gateway.ts";

const fileArgument = { name: "<file>", text: "the policy's text" };

const verbs = ["list", "read", "write", "remove", "move", "mkdir"] as const;

const phrases: Readonly<Record<(typeof verbs)[number], string>> = {
  list: "list the folder",
  read: "read",
  write: "write",
  remove: "remove",
  move: "move from or to",
  mkdir: "make the folder",
};

/** The `policy` commands. */
export const commands: readonly CommandModule[] = [
  {
    words: "policy show",
    summary: "the rules in force, with what each entry for files means",
    example: "fairlead policy show",
    run: async (_, runtime) => {
      await using gateway = await openGateway(runtime);
      const shown = await gateway.client(Policy).show({}, gateway.call());
      const { file, exists, text, rules = {}, entries, warnings } = shown;
      await runtime.output.result(
        { file, exists, text, rules, entries: entries.map(entryToJson), warnings },
        () => showToLines(shown),
      );
      warn(runtime, warnings);
    },
  },
  {
    words: "policy check",
    summary: "validate a text as the gateway would take it; nothing changes",
    example: "fairlead policy check policy.yaml",
    args: [fileArgument],
    run: async (input, runtime) => {
      const file = input.argument("file");
      const text = await readText(file);
      await using gateway = await openGateway(runtime);
      const { warnings, entries } = await gateway.client(Policy).check({ name: file, text }, gateway.call());
      await runtime.output.result({ file, valid: true, entries: entries.map(entryToJson), warnings }, () => [
        `${file} is right`,
        ...entryLines(entries),
      ]);
      warn(runtime, warnings);
    },
  },
  {
    words: "policy apply",
    summary: "put a text in force, or change nothing when there is a mistake in it",
    example: "fairlead policy apply policy.yaml",
    args: [fileArgument],
    run: async (input, runtime) => {
      const name = input.argument("file");
      const text = await readText(name);
      await using gateway = await openGateway(runtime);
      const answer = await gateway.client(Policy).apply({ name, text }, gateway.call());
      const { file, changed, warnings } = answer;
      await runtime.output.result({ file, changed, warnings }, () => [
        changed ? `${file} is in force` : `${file} was in force already`,
      ]);
      warn(runtime, warnings);
    },
  },
  {
    words: "policy explain",
    summary: "what would be decided, and the rule that decides it; nothing is done",
    example: "fairlead policy explain --agent coder --node devbox --read /app/src/main.ts",
    options: [
      { flags: "--agent <name>", text: "who would do it (default: operator, as people at the command line)" },
      { flags: "--node <node>", text: "where: alias, id or id prefix" },
      { flags: "--tool <name>", text: "call this tool" },
      ...verbs.map((verb) => ({ flags: `--${verb} <path>`, text: `${phrases[verb]} /workspace/path` })),
    ],
    callsNode: true,
    run: async (input, runtime) => {
      const asked = toQuestion(input);
      await using gateway = await openGateway(runtime);
      const answer = await gateway.client(Policy).explain(asked, gateway.call());
      await runtime.output.result(explanationToJson(answer), () => explanationToLines(answer));
    },
  },
];

async function readText(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    throw faultFromErrno(error, file);
  }
}

function warn(runtime: Runtime, warnings: readonly string[]): void {
  for (const warning of warnings) runtime.output.note(`warning: ${warning}`);
}

interface Question {
  readonly agent: string;
  readonly node: string;
  readonly tool: string;
  readonly verb: string;
  readonly workspace: string;
  readonly path: string;
}

function toQuestion(input: CommandInput): Question {
  const given = verbs.flatMap((verb) => {
    const path = input.text(verb);
    return path === undefined ? [] : [{ verb, path }];
  });
  const tool = input.text("tool");
  const [file] = given;
  if (given.length + (tool === undefined ? 0 : 1) !== 1) {
    throw new Fault("INVALID_ARGUMENT", "say one thing that would be done: --tool, or --read and the like", {
      hint: "fairlead policy explain --help",
      details: { field: "tool" },
    });
  }
  const agent = input.text("agent") ?? "operator";
  if (!file) return { agent, node: requireNode(input), tool: tool ?? "", verb: "", workspace: "", path: "" };
  const isRemote = isRemotePath(file.path);
  const named = isRemote ? undefined : requireNode(input);
  const text = isRemote ? file.path : `${named ?? ""}:/${file.path.replace(/^\//, "")}`;
  const { node, workspace, path } = parseRemotePath(text, { field: file.verb });
  return { agent, node, tool: "", verb: file.verb, workspace, path };
}

function requireNode(input: CommandInput): string {
  const node = input.text("node");
  if (node !== undefined) return node;
  throw new Fault("INVALID_ARGUMENT", "say on which node: --node NODE", {
    hint: "fairlead nodes ls",
    details: { field: "node" },
  });
}

function entryToJson({ layer, list, entry, meaning }: PolicyEntry): JsonValue {
  return { layer, list, entry, meaning };
}

function entryLines(entries: readonly PolicyEntry[]): readonly string[] {
  return entries.map(({ layer, list, meaning }) => `  files.${layer} ${list}: ${meaning}`);
}

function showToLines({ file, exists, text, entries }: PolicyShowResponse): readonly string[] {
  if (!exists) return [`there is no ${file}: all that nodes offer is allowed, within their profiles`];
  const meanings =
    entries.length === 0 ? [] : ["", "what the entries for files mean:", ...entryLines(entries)];
  return [`# ${file}`, ...text.trimEnd().split("\n"), ...meanings];
}

function explanationToJson(answer: PolicyExplainResponse): JsonValue {
  const { decision, rule, side, reason, hint, nearest, grantId, layers, node } = answer;
  return {
    decision,
    rule,
    side,
    reason,
    hint,
    nearest: nearest === "" ? null : nearest,
    grantId: grantId === "" ? null : grantId,
    layers: layers.map((layer) => ({
      name: layer.name,
      decision: layer.decision,
      rule: layer.rule,
      entries: layer.entries.map(entryToJson),
    })),
    node: { decision: node?.decision ?? "unknown", rule: node?.rule ?? "", reason: node?.reason ?? "" },
  };
}

function explanationToLines(answer: PolicyExplainResponse): readonly string[] {
  const { decision, rule, side, reason, hint, nearest, layers, node } = answer;
  const optional: readonly (readonly [string, string])[] = [
    ["why", reason],
    ["nearly allowed by", nearest],
    ["next", hint],
  ];
  return [
    `${decision}: ${rule} (${side})`,
    ...optional.filter(([, text]) => text !== "").map(([word, text]) => `${word}: ${text}`),
    ...layers.flatMap((layer) => [
      `files.${layer.name}: ${layer.decision} by ${layer.rule}`,
      ...layer.entries.map(({ list, meaning }) => `  ${list}: ${meaning}`),
    ]),
    `the node: ${node?.decision ?? "unknown"}${node && node.reason !== "" ? ` (${node.reason})` : ""}`,
  ];
}
