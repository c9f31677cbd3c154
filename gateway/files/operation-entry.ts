import type { Fault, JsonValue } from "../../shared/fault/fault.ts";
import type { AuditEntry } from "../audit/audit-record.ts";
import type { NodeRecord } from "../pairing/nodes.ts";
import type { FileActor } from "./file-question.ts";
import type { OperationRequest } from "./operation.ts";

/** What is known of an operation by now. */
export interface OperationFacts {
  readonly actor: FileActor;
  readonly request: OperationRequest;
  readonly callId: string;
  readonly node?: NodeRecord | undefined;
  readonly canonicalPath?: string | undefined;
  readonly toCanonicalPath?: string | undefined;
  /** The rule that decided. */
  readonly rule?: string | undefined;
  readonly grantId?: string | undefined;
  readonly approvalId?: string | undefined;
  /** Policy ended it while it ran. */
  readonly forbidden?: boolean;
  /** Bytes of content that were read or written. */
  readonly sizeBytes?: bigint | undefined;
  readonly digest?: string | undefined;
}

/** How it ended. */
export interface OperationEnding {
  /** `ok`, or the code. */
  readonly outcome: string;
  readonly fault: Fault | undefined;
  readonly durationMs: number;
}

const denials = new Set(["POLICY_DENIED", "APPROVAL_DENIED", "APPROVAL_EXPIRED", "APPROVAL_REQUIRED"]);

/** The record of an operation: who, what, where, by which rule, and how it ended. It holds no content. */
export function toEntry(facts: OperationFacts, { outcome, fault, durationMs }: OperationEnding): AuditEntry {
  const { actor, request, node, callId } = facts;
  const place = node ? request.workspace.replace(/^[^:]*/, node.alias) : request.workspace;
  const details: { readonly [name: string]: JsonValue | undefined } = {
    kind: request.kind,
    agent: actor.agent,
    tool: actor.tool,
    workspace: place,
    requestedPath: request.path,
    canonicalPath: facts.canonicalPath,
    to: request.to,
    toCanonicalPath: facts.toCanonicalPath,
    decision: denials.has(outcome) ? "deny" : facts.rule === undefined ? "none" : "allow",
    rule: textOf(fault?.details["rule"]) ?? facts.rule,
    side: textOf(fault?.details["side"]),
    grantId: facts.grantId,
    approvalId: facts.approvalId ?? textOf(fault?.details["approvalId"]),
    bytes: facts.sizeBytes === undefined ? 0 : Number(facts.sizeBytes),
    digest: facts.digest === "" ? undefined : facts.digest,
    durationMs,
  };
  return {
    actor: `agent:${actor.agent}`,
    action: `files.${request.kind.replaceAll("_", "-")}`,
    target: `file:${place}/${request.path}`,
    outcome,
    callId,
    details: withoutUndefined(details),
    ...(node ? { nodeId: node.id } : {}),
    ...(actor.sessionId === undefined ? {} : { sessionId: actor.sessionId }),
  };
}

function textOf(value: JsonValue | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

function withoutUndefined(values: { readonly [name: string]: JsonValue | undefined }): JsonValue {
  const given: [string, JsonValue][] = [];
  for (const [name, value] of Object.entries(values)) if (value !== undefined) given.push([name, value]);
  return Object.fromEntries(given);
}
