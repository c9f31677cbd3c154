import { Fault } from "../../shared/fault/fault.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { parsePairs } from "../../shared/terminal/pairs.ts";
import { given, nodeToJson, toPairs } from "./node-view.ts";
import { bulkOptions, nodeOrSelector, runOnNodes } from "./nodes-bulk.ts";

/** `nodes label`: sets and removes labels. */
export const label: CommandModule = {
  words: "nodes label",
  summary: "set labels of a node, or remove them",
  example: "fairlead nodes label devbox env=prod team/role=build region-",
  args: [nodeOrSelector, { name: "[change...]", text: "a label to set as K=V, or K- to remove one" }],
  options: bulkOptions,
  run: async (input, runtime) => {
    const { node, rest } = splitArguments(input, input.rest("change"));
    if (rest.length === 0) throw missing("change", "at least one label", "env=prod, or env- to remove it");
    const change = parseChange(rest);
    return await runOnNodes(input, runtime, {
      node,
      act: async (admin, name, call) => {
        const labelled = await admin.labelNode({ node: name, ...change }, call);
        const shown = given(labelled.node);
        const labels = toPairs(shown.labels);
        return { json: nodeToJson(shown), lines: [`${shown.alias}: ${labels || "no labels"}`] };
      },
    });
  },
};

/** `nodes note`: what an administrator wants to remember about a node. */
export const note: CommandModule = {
  words: "nodes note",
  summary: "write down a line about a node, shown by nodes show",
  example: 'fairlead nodes note devbox "under the desk of the build team"',
  args: [nodeOrSelector, { name: "[text...]", text: "the note, at most 200 characters; - takes it away" }],
  options: bulkOptions,
  run: async (input, runtime) => {
    const { node, rest } = splitArguments(input, input.rest("text"));
    const [text, ...more] = rest;
    if (text === undefined || more.length > 0)
      throw missing("text", "one note", 'in quotes, such as "new disk", or - to take it away');
    return await runOnNodes(input, runtime, {
      node,
      act: async (admin, name, call) => {
        const noted = await admin.noteNode({ node: name, note: text === "-" ? "" : text }, call);
        const shown = given(noted.node);
        return { json: nodeToJson(shown), lines: [`${shown.alias}: ${shown.note || "no note"}`] };
      },
    });
  },
};

/** What follows the words of the command: with a selector no node is named, and all of it is the change. */
function splitArguments(
  input: CommandInput,
  rest: readonly string[],
): { readonly node: string | undefined; readonly rest: readonly string[] } {
  const first = input.maybeArgument("node");
  if (input.text("selector") === undefined || first === undefined) return { node: first, rest };
  return { node: undefined, rest: [first, ...rest] };
}

function missing(field: string, what: string, how: string): Fault {
  return new Fault("INVALID_ARGUMENT", `${what} is needed: ${how}`, { details: { field } });
}

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
