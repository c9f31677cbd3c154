import { findNearest } from "../../shared/config/nearest.ts";
import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import {
  Sessions,
  type SessionsExplainToolResponse,
  type Tool,
} from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import type { CommandModule, OptionSpec } from "../../shared/terminal/command.ts";
import { toWords } from "../../shared/terminal/json.ts";
import { parseJson } from "../../shared/terminal/parse-json.ts";
import { openGateway } from "./open-gateway.ts";
import { callOptions, callTool } from "./tool-call.ts";

const sessionOption: OptionSpec = {
  flags: "--session <id>",
  text: "as this session sees it (default: as the operator)",
};
const nameArgument = { name: "<name>", text: "the tool's name" };

/** The `tools` commands. */
export const commands: readonly CommandModule[] = [
  {
    words: "tools ls",
    summary: "the tools that may be called",
    example: "fairlead tools ls --session 3f9c2a",
    options: [
      sessionOption,
      { flags: "--provider <name>", text: "only tools of this node, or of host or core" },
      { flags: "--removed", text: "also those that a rule took away, with the rule" },
    ],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const request = { session: input.text("session") ?? "", removed: input.flag("removed") };
      const { tools: all, surface } = await gateway.client(Sessions).listTools(request, gateway.call());
      const provider = input.text("provider");
      const tools = all.filter(
        (tool) => provider === undefined || tool.node === provider || tool.owner === provider,
      );
      await runtime.output.result({ tools: tools.map(toJson), surface }, () => ({
        columns: ["NAME", "OWNER", "EFFECT", "STATE", "DESCRIPTION"],
        rows: tools.map((tool) => [
          tool.name,
          tool.node || tool.owner,
          tool.effect,
          tool.state === "removed" ? `removed by ${tool.rule}` : toWords(tool.state),
          tool.description,
        ]),
        empty: "no tool is published; see the nodes with: fairlead nodes ls",
      }));
    },
  },
  {
    words: "tools show",
    summary: "one tool with its schema",
    example: "fairlead tools show devbox__exec",
    args: [nameArgument],
    options: [sessionOption],
    run: async (input, runtime) => {
      const name = input.argument("name");
      await using gateway = await openGateway(runtime);
      const request = { session: input.text("session") ?? "", removed: true };
      const { tools } = await gateway.client(Sessions).listTools(request, gateway.call());
      const tool = tools.find((one) => one.name === name);
      if (!tool) throw unknownTool(name, tools);
      await runtime.output.result(toJson(tool), () => toLines(tool));
    },
  },
  {
    words: "tools call",
    summary: "call a tool",
    example: `fairlead tools call devbox__exec --args '{"command": ["uname", "-a"]}'`,
    args: [nameArgument],
    options: [sessionOption, ...callOptions],
    callsNode: true,
    run: (input, runtime) =>
      callTool(input, runtime, { name: input.argument("name"), session: input.text("session") }),
  },
  {
    words: "tools explain",
    summary: "why a tool can or cannot be called",
    example: "fairlead tools explain devbox__exec",
    args: [nameArgument],
    options: [sessionOption],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const request = { session: input.text("session") ?? "", name: input.argument("name") };
      const answer = await gateway.client(Sessions).explainTool(request, gateway.call());
      await runtime.output.result(explanationToJson(answer), () => explanationToLines(answer));
    },
  },
];

function unknownTool(name: string, tools: readonly Tool[]): Fault {
  const nearest = findNearest(
    name,
    tools.map((tool) => tool.name),
  );
  return new Fault("NOT_FOUND", `there is no tool ${name}`, {
    hint: nearest === undefined ? "fairlead tools ls" : `did you mean ${nearest}?`,
    details: { tool: name },
  });
}

function toJson(tool: Tool): { readonly [key: string]: JsonValue } {
  return {
    name: tool.name,
    title: tool.title,
    description: tool.description,
    owner: tool.owner,
    node: tool.node,
    effect: tool.effect,
    state: tool.state,
    rule: tool.rule,
    reason: tool.reason,
    callClass: tool.callClass,
    inputSchema: tool.inputSchemaJson === "" ? {} : parseJson(tool.inputSchemaJson, "input-schema"),
  };
}

function toLines(tool: Tool): readonly string[] {
  const removed = tool.state === "removed" ? [`removed by: ${tool.rule}`, `reason: ${tool.reason}`] : [];
  return [
    `name: ${tool.name}`,
    `description: ${tool.description}`,
    `owner: ${tool.owner}${tool.node === "" ? "" : ` ${tool.node}`}`,
    `effect: ${tool.effect}`,
    `state: ${toWords(tool.state)}`,
    ...removed,
    `arguments: ${tool.inputSchemaJson}`,
  ];
}

function explanationToJson(answer: SessionsExplainToolResponse): JsonValue {
  return {
    name: answer.name,
    states: answer.states.map(({ state, holds, evidence }) => ({ state, holds, evidence })),
    failed: answer.failed === "" ? null : answer.failed,
    reason: answer.reason,
    hint: answer.hint,
  };
}

function explanationToLines(answer: SessionsExplainToolResponse): readonly string[] {
  const states = answer.states.map(
    ({ state, holds, evidence }) => `${state}: ${toWords(holds)}${evidence === "" ? "" : ` (${evidence})`}`,
  );
  if (answer.failed === "") return states;
  return [...states, `failed: ${answer.failed}`, `why: ${answer.reason}`, `next: ${answer.hint}`];
}
