import type { JsonValue } from "../../shared/fault/fault.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { Admin, type NodeSummary } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { formatDuration } from "../../shared/terminal/duration.ts";
import { toTime, toWords } from "../../shared/terminal/json.ts";
import type { TableView } from "../../shared/terminal/output.ts";
import { parsePairs } from "../../shared/terminal/pairs.ts";
import { faultToJson } from "./fault-to-json.ts";
import { nodesCall } from "./nodes-call.ts";
import { openGateway } from "./open-gateway.ts";

const states = ["online", "reconnecting", "draining", "offline", "revoked"];

const nodeArgument = { name: "<node>", text: "alias, id, or a prefix of the id of at least 6 characters" };

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
      const { nodes } = await gateway.client(Admin).listNodes({ state, labels }, gateway.call());
      await runtime.output.result({ nodes: nodes.map(toJson) }, () => toTable(nodes, runtime.clock.now()));
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
      await runtime.output.result(toJson(shown), () => toLines(shown));
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
      await runtime.output.result(toJson(shown), () => [`${shown.id} is now ${shown.alias}`]);
    },
  },
  {
    words: "nodes revoke",
    summary: "end a node's identity, its link and its running calls",
    example: "fairlead nodes revoke devbox",
    args: [nodeArgument],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const request = { node: input.argument("node") };
      const { node, already } = await gateway.client(Admin).revokeNode(request, gateway.call());
      const shown = given(node);
      const since = toTime(shown.sinceMs) ?? "an unknown time";
      await runtime.output.result({ ...toJson(shown), already }, () => [
        already
          ? `${shown.alias} was revoked before, since ${since}`
          : `${shown.alias} is revoked since ${since}`,
      ]);
    },
  },
  nodesCall,
];

function given(node: NodeSummary | undefined): NodeSummary {
  if (node) return node;
  throw new Fault("INTERNAL", "the gateway answered without the node");
}

function unknownState(state: string): Fault {
  return new Fault("INVALID_ARGUMENT", `--state ${state} is no state of a node`, {
    hint: `use one of ${states.join(", ")}`,
    details: { field: "state", actual: state },
  });
}

function toJson(node: NodeSummary): { readonly [key: string]: JsonValue } {
  return {
    id: node.id,
    alias: node.alias,
    state: node.state,
    since: toTime(node.sinceMs),
    reason: node.reason,
    nextStep: node.nextStep,
    version: node.agentVersion,
    platform: node.platform,
    hostName: node.hostName,
    labels: node.labels,
    profile: node.profile,
    workspaces: node.workspaces,
    tools: node.tools,
    skills: node.skills,
    certificateExpiresAt: toTime(node.certificateExpiresMs),
    lastSeenAt: toTime(node.lastSeenMs),
    pairedAt: toTime(node.pairedMs),
    generation: Number(node.generation),
    address: node.address,
    containment: node.containment,
    problems: node.problems.map(({ kind, name, fault }) => ({ kind, name, error: faultToJson(fault) })),
  };
}

function toTable(nodes: readonly NodeSummary[], now: number): TableView {
  return {
    columns: [
      "ALIAS",
      "STATE",
      "SINCE",
      "REASON",
      "VERSION",
      "WORKSPACES",
      "TOOLS",
      "SKILLS",
      "LABELS",
      "CERTIFICATE",
    ],
    rows: nodes.map((node) => [
      node.alias,
      toWords(node.state),
      `${formatDuration(now - Number(node.sinceMs))}`,
      toWords(node.reason),
      node.agentVersion,
      node.workspaces.join(","),
      String(node.tools),
      String(node.skills),
      toPairs(node.labels),
      toTime(node.certificateExpiresMs) ?? "",
    ]),
    empty: "no node is paired; make a code with: fairlead invite",
  };
}

function toLines(node: NodeSummary): readonly string[] {
  const facts: readonly (readonly [string, string])[] = [
    ["alias", node.alias],
    ["id", node.id],
    ["state", `${toWords(node.state)} since ${toTime(node.sinceMs) ?? "never"}`],
    ["reason", toWords(node.reason)],
    ["next step", node.nextStep],
    ["profile", node.profile],
    ["labels", toPairs(node.labels)],
    ["host", `${node.hostName} (${node.platform})`],
    ["version", node.agentVersion],
    ["address", node.address],
    ["workspaces", node.workspaces.join(", ")],
    ["tools", String(node.tools)],
    ["skills", String(node.skills)],
    ["containment", toWords(node.containment)],
    ["paired", toTime(node.pairedMs) ?? ""],
    ["last seen", toTime(node.lastSeenMs) ?? "never"],
    ["certificate until", toTime(node.certificateExpiresMs) ?? ""],
    ["generation", String(node.generation)],
  ];
  const problems = node.problems.map(
    ({ kind, name, fault }) => `refused ${kind} ${name}: ${fault?.message ?? "no reason was given"}`,
  );
  return [
    ...facts.filter(([, value]) => value !== "").map(([name, value]) => `${name}: ${value}`),
    ...problems,
  ];
}

function toPairs(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}
