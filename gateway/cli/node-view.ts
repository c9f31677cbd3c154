import type { JsonValue } from "../../shared/fault/fault.ts";
import { Fault } from "../../shared/fault/fault.ts";
import type { LinkedMachine, NodeSummary } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { ArgumentSpec } from "../../shared/terminal/command.ts";
import { formatDuration } from "../../shared/terminal/duration.ts";
import { toTime, toWords } from "../../shared/terminal/json.ts";
import type { TableView } from "../../shared/terminal/output.ts";
import { faultToJson } from "./fault-to-json.ts";
import { drainOf, linkToJson, restartNeeded, timedOutOf, versionOf } from "./node-link-view.ts";

/** The argument that names a node. */
export const nodeArgument: ArgumentSpec = {
  name: "<node>",
  text: "alias, id, or a prefix of the id of at least 6 characters",
};

/** The node of an answer, which always carries one. */
export function given(node: NodeSummary | undefined): NodeSummary {
  if (node) return node;
  throw new Fault("INTERNAL", "the gateway answered without the node");
}

/** A node as `--json` shows it. */
export function nodeToJson(node: NodeSummary): { readonly [key: string]: JsonValue } {
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
    note: node.note,
    profile: node.profile,
    workspaces: node.workspaces,
    tools: node.tools,
    skills: node.skills,
    certificateExpiresAt: toTime(node.certificateExpiresMs),
    renewal: toRenewal(node),
    trustedPins: node.trustedPins,
    clone: toClone(node),
    lastSeenAt: toTime(node.lastSeenMs),
    pairedAt: toTime(node.pairedMs),
    generation: Number(node.generation),
    address: node.address,
    containment: node.containment,
    ...linkToJson(node),
    problems: node.problems.map(({ kind, name, fault }) => ({ kind, name, error: faultToJson(fault) })),
  };
}

/** Nodes as people see a list of them. */
export function nodesToTable(nodes: readonly NodeSummary[], now: number): TableView {
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
      versionOf(node),
      node.workspaces.join(","),
      String(node.tools),
      String(node.skills),
      toPairs(node.labels),
      toTime(node.certificateExpiresMs) ?? "",
    ]),
    empty: "no node is paired; make a code with: fairlead invite",
  };
}

/** Everything about a node for people. */
export function nodeToLines(node: NodeSummary, now: number): readonly string[] {
  const facts: readonly (readonly [string, string])[] = [
    ["alias", node.alias],
    ["id", node.id],
    ["state", `${toWords(node.state)} since ${toTime(node.sinceMs) ?? "never"}`],
    ["reason", toWords(node.reason)],
    ["next step", node.nextStep],
    ["profile", node.profile],
    ["labels", toPairs(node.labels)],
    ["note", node.note],
    ["host", `${node.hostName} (${node.platform})`],
    ["version", versionOf(node)],
    ["restart needed", restartNeeded(node)],
    ["drained", drainOf(node)],
    ["address", node.address],
    ["workspaces", node.workspaces.join(", ")],
    ["tools", String(node.tools)],
    ["skills", String(node.skills)],
    ["containment", toWords(node.containment)],
    ["paired", toTime(node.pairedMs) ?? ""],
    ["last seen", toTime(node.lastSeenMs) ?? "never"],
    ["certificate until", toTime(node.certificateExpiresMs) ?? ""],
    ["renewal", renewalLine(node)],
    ["copies", cloneLine(node, now)],
    ["generation", String(node.generation)],
    ["calls out of time", timedOutOf(node)],
    ["messages dropped", String(node.link?.droppedMessages || "")],
  ];
  const problems = node.problems.map(
    ({ kind, name, fault }) => `refused ${kind} ${name}: ${fault?.message ?? "no reason was given"}`,
  );
  return [
    ...facts.filter(([, value]) => value !== "").map(([name, value]) => `${name}: ${value}`),
    ...problems,
  ];
}

/** Labels as they are written on the command line. */
export function toPairs(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}

/** Empty unless its certificate cannot be renewed. */
function renewalLine({ renewal }: NodeSummary): string {
  if (!renewal) return "";
  return `fails since ${toTime(renewal.sinceMs) ?? "unknown"}: ${renewal.message} (${renewal.code}); tried again until the certificate ends at ${toTime(renewal.expiresMs) ?? "unknown"}`;
}

function toClone({ clone }: NodeSummary): JsonValue {
  if (!clone?.kept || !clone.other) return null;
  const toMachine = ({ bootId, address, atMs }: LinkedMachine): JsonValue => ({
    bootId,
    address,
    at: toTime(atMs),
  });
  return {
    kind: clone.kind,
    kept: toMachine(clone.kept),
    other: toMachine(clone.other),
    count: clone.count,
  };
}

/** A copy that is refused tries again within half a minute; one that has not for so long, in milliseconds, is over. */
const copyGoneMs = 600_000;

/** Empty unless two processes came with its identity. */
function cloneLine({ clone }: NodeSummary, now: number): string {
  if (!clone?.kept || !clone.other) return "";
  if (clone.kind === "refused" && now - Number(clone.other.atMs) > copyGoneMs)
    return `one at ${clone.other.address || "unknown"} was refused until ${toTime(clone.other.atMs) ?? "unknown"}, and has not come back`;
  const name = ({ bootId, address, atMs }: LinkedMachine): string =>
    `process ${bootId || "unknown"} at ${address || "unknown"}, ${toTime(atMs) ?? "unknown"}`;
  const what = clone.kind === "refused" ? "refused" : "of an older state";
  return `two processes have this identity: kept ${name(clone.kept)}; ${what} ${name(clone.other)}; on the copy: fairlead node join CODE --new-identity`;
}

function toRenewal({ renewal }: NodeSummary): JsonValue {
  if (!renewal) return null;
  const { sinceMs, code, message, expiresMs } = renewal;
  return { since: toTime(sinceMs), code, message, certificateExpiresAt: toTime(expiresMs) };
}
