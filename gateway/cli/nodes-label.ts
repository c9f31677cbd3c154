import { Fault } from "../../shared/fault/fault.ts";
import { Admin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { parsePairs } from "../../shared/terminal/pairs.ts";
import { given, nodeArgument, nodeToJson, toPairs } from "./node-view.ts";
import { openGateway } from "./open-gateway.ts";

/** `nodes label`: sets and removes labels. */
export const label: CommandModule = {
  words: "nodes label",
  summary: "set labels of a node, or remove them",
  example: "fairlead nodes label devbox env=prod team/role=build region-",
  args: [nodeArgument, { name: "<change...>", text: "a label to set as K=V, or K- to remove one" }],
  run: async (input, runtime) => {
    const change = parseChange(input.rest("change"));
    await using gateway = await openGateway(runtime);
    const request = { node: input.argument("node"), ...change };
    const { node } = await gateway.client(Admin).labelNode(request, gateway.call());
    const shown = given(node);
    const labels = toPairs(shown.labels);
    await runtime.output.result(nodeToJson(shown), () => [`${shown.alias}: ${labels || "no labels"}`]);
  },
};

/** `nodes note`: what an administrator wants to remember about a node. */
export const note: CommandModule = {
  words: "nodes note",
  summary: "write down a line about a node, shown by nodes show",
  example: 'fairlead nodes note devbox "under the desk of the build team"',
  args: [nodeArgument, { name: "<text>", text: "the note, at most 200 characters; empty: none" }],
  run: async (input, runtime) => {
    await using gateway = await openGateway(runtime);
    const request = { node: input.argument("node"), note: input.argument("text") };
    const { node } = await gateway.client(Admin).noteNode(request, gateway.call());
    const shown = given(node);
    await runtime.output.result(nodeToJson(shown), () => [`${shown.alias}: ${shown.note || "no note"}`]);
  },
};

function parseChange(texts: readonly string[]): {
  readonly set: Record<string, string>;
  readonly remove: string[];
} {
  const parts = texts.flatMap((text) => text.split(","));
  const remove = parts
    .filter((part) => part.endsWith("-") && !part.includes("="))
    .map((part) => part.slice(0, -1));
  const set = parsePairs(
    parts.filter((part) => !part.endsWith("-") || part.includes("=")),
    "label",
  );
  const both = remove.find((name) => Object.hasOwn(set, name) || name === "");
  if (both === undefined) return { set, remove };
  throw new Fault("INVALID_ARGUMENT", `label ${JSON.stringify(both)} cannot be both set and removed`, {
    details: { field: "label", actual: both },
  });
}
