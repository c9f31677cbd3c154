import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Fault } from "../../shared/fault/fault.ts";
import type { LinkedMachineSchema, NodeSummarySchema } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import { toWireFault } from "../../shared/rpc/fault-wire.ts";
import type { LinkedMachine, NodeFacts, Presence } from "../link/links.ts";
import type { NodeRecord } from "../pairing/nodes.ts";
import { toLinkFacts } from "./node-duty.ts";

/** A published thing that the gateway refused. */
export interface RefusedPublication {
  /** `tool`, `skill` or `workspace`. */
  readonly kind: string;
  readonly name: string;
  readonly fault: Fault;
}

/** What a node publishes now, as the catalogues hold it. */
export interface Published {
  readonly workspaces: readonly string[];
  readonly tools: number;
  readonly skills: number;
  readonly refused: readonly RefusedPublication[];
  /** How each workspace is kept inside: `kernel` or `best_effort`; empty while it is not known. */
  readonly containments: readonly string[];
}

/** What the link knows of a node. */
export interface LinkKnown {
  readonly presence: Presence;
  readonly facts: NodeFacts;
  /** The authority that signed its certificate has gone: no handshake takes it any more. */
  readonly isCutOff: boolean;
}

/** A node as lists show it: what the store, the link and the catalogues know of it. */
export function toNodeSummary(
  node: NodeRecord,
  { presence, facts, isCutOff }: LinkKnown,
  published: Published,
): MessageInitShape<typeof NodeSummarySchema> {
  const standing = standingOf(node, presence, isCutOff);
  return {
    id: node.id,
    alias: node.alias,
    ...standing,
    nextStep:
      facts.drain && node.revokedAt === undefined
        ? undrainStep(node)
        : nextStep(node, standing.state, standing.reason),
    agentVersion: presence.hello?.agentVersion ?? "",
    platform: presence.hello?.platform ?? node.platform,
    hostName: presence.hello?.hostName ?? node.hostName,
    labels: { ...node.labels },
    profile: node.profile,
    workspaces: [...published.workspaces],
    tools: published.tools,
    skills: published.skills,
    certificateExpiresMs: BigInt(node.certificateExpiresAt),
    lastSeenMs: BigInt(presence.lastSeenMs),
    pairedMs: BigInt(node.pairedAt),
    generation: BigInt(presence.generation),
    address: presence.address,
    containment: leastOf(published.containments),
    note: node.note,
    link: toLinkFacts(facts),
    ...toIdentityFields(presence),
    problems: published.refused.map(({ kind, name, fault }) => ({ kind, name, fault: toWireFault(fault) })),
  };
}

/** A node is as closed as the least sure of what it exports. */
function leastOf(containments: readonly string[]): string {
  return containments.includes("best_effort") ? "best_effort" : (containments[0] ?? "");
}

function toIdentityFields({
  report,
  clone,
}: Presence): Pick<MessageInitShape<typeof NodeSummarySchema>, "renewal" | "trustedPins" | "clone"> {
  const renewal = report?.renewal;
  return {
    trustedPins: [...(report?.trustedPins ?? [])],
    ...(renewal
      ? { renewal: { ...renewal, sinceMs: BigInt(renewal.sinceMs), expiresMs: BigInt(renewal.expiresMs) } }
      : {}),
    ...(clone ? { clone: { ...clone, kept: toMachine(clone.kept), other: toMachine(clone.other) } } : {}),
  };
}

function toMachine({ bootId, address, atMs }: LinkedMachine): MessageInitShape<typeof LinkedMachineSchema> {
  return { bootId, address, atMs: BigInt(Math.round(atMs)) };
}

function standingOf(
  node: NodeRecord,
  presence: Presence,
  isCutOff: boolean,
): { readonly state: string; readonly sinceMs: bigint; readonly reason: string } {
  if (node.revokedAt !== undefined)
    return { state: "revoked", sinceMs: BigInt(node.revokedAt), reason: "revoked" };
  const sinceMs = presence.sinceMs > 0 ? presence.sinceMs : node.pairedAt;
  // It was approved while it was not on the line, and has not come back for its certificate.
  const isAwaited = node.certificateExpiresAt === 0 && presence.state === "offline";
  const reason = isAwaited ? "awaits_machine" : presence.reason;
  // A link that is up goes on: it is the next one that its certificate does not open.
  const isOut = isCutOff && presence.state === "offline";
  return { state: presence.state, sinceMs: BigInt(sinceMs), reason: isOut ? "foreign_certificate" : reason };
}

function undrainStep({ alias }: NodeRecord): string {
  return `fairlead nodes undrain ${alias}`;
}

function nextStep(node: NodeRecord, state: string, reason: string): string {
  if (state === "revoked" || reason === "foreign_certificate")
    return "fairlead invite, then on that machine fairlead node join CODE";
  if (reason === "awaits_machine")
    return "on that machine: fairlead node join CODE, with the code that it asked with";
  if (state === "offline" && reason === "goodbye") return "on that machine: fairlead node run";
  if (state === "offline") return "on that machine: fairlead node status";
  return "";
}
