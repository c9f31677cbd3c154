import { Fault } from "../../shared/fault/fault.ts";
import { Admin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import { Files, type WatchLimit } from "../../shared/gen/fairlead/v1/files_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime } from "../../shared/terminal/json.ts";
import { parsePairs } from "../../shared/terminal/pairs.ts";
import { limitNote, limitToJson } from "./files/freshness-view.ts";
import { given, nodeArgument, nodesToTable, nodeToJson, nodeToLines } from "./node-view.ts";
import { bulkOptions, nodeOrSelector, runOnNodes } from "./nodes-bulk.ts";
import { nodesCall } from "./nodes-call.ts";
import { dutyCommands } from "./nodes-duty.ts";
import { enrolmentCommands } from "./nodes-enrolments.ts";
import { label, note } from "./nodes-label.ts";
import { nodesOutcome } from "./nodes-outcome.ts";
import { openGateway, type OpenGateway } from "./open-gateway.ts";

const states = ["online", "reconnecting", "draining", "offline", "revoked"];

/** The `nodes` commands. */
export const commands: readonly CommandModule[] = [
  {
    words: "nodes ls",
    summary: "every node with state, since and reason",
    example: "fairlead nodes ls --selector env=prod --state offline",
    options: [
      { flags: "--selector <k=v>", text: "only nodes with these labels" },
      { flags: "--state <state>", text: `only nodes in this state: ${states.join(", ")}` },
    ],
    run: async (input, runtime) => {
      const state = input.text("state") ?? "";
      if (state !== "" && !states.includes(state)) throw unknownState(state);
      const selector = input.text("selector");
      const labels = selector === undefined ? {} : parsePairs([selector], "selector");
      await using gateway = await openGateway(runtime);
      const listed = await gateway.client(Admin).listNodes({ state, labels }, gateway.call());
      const { nodes, waiting } = listed;
      await runtime.output.result({ nodes: nodes.map(nodeToJson) }, () =>
        nodesToTable(nodes, runtime.clock.now()),
      );
      if (waiting > 0 && !runtime.output.json) runtime.output.note(waitingNote(waiting));
    },
  },
  {
    words: "nodes show",
    summary: "everything about one node",
    example: "fairlead nodes show devbox",
    args: [nodeArgument],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const { node } = await gateway.client(Admin).getNode({ node: input.argument("node") }, gateway.call());
      const shown = given(node);
      const limit = await findWatchLimit(gateway, shown.alias);
      const note = limitNote(shown.alias, limit);
      await runtime.output.result({ ...nodeToJson(shown), watchLimit: limitToJson(limit) }, () => [
        ...nodeToLines(shown, runtime.clock.now()),
        ...(note === undefined ? [] : [note]),
      ]);
    },
  },
  {
    words: "nodes rename",
    summary: "give a node another alias",
    example: "fairlead nodes rename devbox buildbox",
    args: [nodeArgument, { name: "<alias>", text: "the new alias" }],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const request = { node: input.argument("node"), alias: input.argument("alias") };
      const { node } = await gateway.client(Admin).renameNode(request, gateway.call());
      const shown = given(node);
      await runtime.output.result(nodeToJson(shown), () => [`${shown.id} is now ${shown.alias}`]);
    },
  },
  {
    words: "nodes revoke",
    summary: "end a node's identity, its link and its running calls",
    example: "fairlead nodes revoke devbox",
    args: [nodeOrSelector],
    options: bulkOptions,
    run: (input, runtime) =>
      runOnNodes(input, runtime, {
        node: input.maybeArgument("node"),
        act: async (admin, name, call) => {
          const { node, already } = await admin.revokeNode({ node: name }, call);
          const shown = given(node);
          const since = toTime(shown.sinceMs) ?? "an unknown time";
          const line = already
            ? `${shown.alias} was revoked before, since ${since}`
            : `${shown.alias} is revoked since ${since}`;
          return { json: { ...nodeToJson(shown), already }, lines: [line] };
        },
      }),
  },
  ...enrolmentCommands,
  ...dutyCommands,
  label,
  note,
  nodesCall,
  nodesOutcome,
];

function waitingNote(count: number): string {
  return `note: ${count === 1 ? "a machine waits" : `${count} machines wait`} to be let in: fairlead nodes pending`;
}

function unknownState(state: string): Fault {
  return new Fault("INVALID_ARGUMENT", `--state ${state} is no state of a node`, {
    hint: `use one of ${states.join(", ")}`,
    details: { field: "state", actual: state },
  });
}

/** The kernel's limit of watches on a node, when it is near or reached. */
async function findWatchLimit(gateway: OpenGateway, alias: string): Promise<WatchLimit | undefined> {
  const { exports } = await gateway.client(Files).listExports({ node: alias }, gateway.call());
  return exports.find(({ freshness }) => freshness?.limit)?.freshness?.limit;
}
