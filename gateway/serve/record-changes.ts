import { type DescService, type Message, toJson } from "@bufbuild/protobuf";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import type { JsonValue } from "../../shared/fault/fault.ts";
import type { ServiceImplementation } from "../../shared/rpc/service.ts";
import type { AuditEntry } from "../audit/audit-record.ts";
import type { Audit } from "../audit/audit.ts";

/** A method that changes something. */
export interface RecordedMethod {
  /** What it does, for the record: `nodes.rename`. */
  readonly action: string;
  /** Only refusals: what it changes is recorded with the change itself. */
  readonly refusalsOnly?: true;
}

/** What the administrators' service changes, by method. */
export const adminChanges: Readonly<Record<string, RecordedMethod>> = {
  createInvite: { action: "codes.create" },
  revokeNode: { action: "nodes.revoke" },
  drainNode: { action: "nodes.drain" },
  undrainNode: { action: "nodes.undrain" },
  disconnectNode: { action: "nodes.disconnect" },
  renameNode: { action: "nodes.rename" },
  labelNode: { action: "nodes.label" },
  noteNode: { action: "nodes.note" },
  createToken: { action: "tokens.create" },
  revokeToken: { action: "tokens.revoke" },
  decideApproval: { action: "approvals.decide" },
  revokeGrant: { action: "grants.revoke" },
  approveEnrolment: { action: "enrolments.approve", refusalsOnly: true },
  rejectEnrolment: { action: "enrolments.reject", refusalsOnly: true },
};

/** What the service of sessions changes, by method. */
export const sessionChanges: Readonly<Record<string, RecordedMethod>> = {
  open: { action: "sessions.open" },
  close: { action: "sessions.close" },
};

type Method = (request: unknown, context: unknown) => Promise<unknown>;

/**
 * A service whose changes and refusals are recorded once they are done, with what was asked. A call whose record cannot be
 * made fails with the fault of that. Requests of these methods hold no secret.
 */
export function recordChanges<S extends DescService>(
  service: S,
  implementation: ServiceImplementation<S>,
  options: {
    readonly audit: Pick<Audit, "append">;
    readonly changes: Readonly<Record<string, RecordedMethod>>;
  },
): ServiceImplementation<S> {
  const recorded = new Map<string, Method>();
  for (const method of service.methods) {
    const change = options.changes[method.localName];
    const given: unknown = Object.entries(implementation).find(([name]) => name === method.localName)?.[1];
    if (!change || typeof given !== "function") continue;
    const run = given as Method;
    recorded.set(method.localName, async (request, context) => {
      const asked = toJson(method.input, request as Message) as JsonValue;
      let answer: unknown;
      try {
        answer = await run(request, context);
      } catch (error) {
        const { code } = faultFromError(error);
        await options.audit.append(toEntry(change, { asked, answer: undefined, outcome: code }));
        throw error;
      }
      if (change.refusalsOnly !== true) {
        await options.audit.append(toEntry(change, { asked, answer, outcome: "ok" }));
      }
      return answer;
    });
  }
  return { ...implementation, ...Object.fromEntries(recorded) };
}

interface Done {
  readonly asked: JsonValue;
  readonly answer: unknown;
  readonly outcome: string;
}

function toEntry({ action }: RecordedMethod, { asked, answer, outcome }: Done): AuditEntry {
  const nodeId = idOf(answer, "node");
  const sessionId = idOf(answer, "session") ?? textOf(asked, "session");
  const name = nodeId ?? sessionId ?? textOf(asked, "node") ?? textOf(asked, "id") ?? "";
  const [kind = ""] = action.split(".", 1);
  return {
    // The local socket takes its owner only.
    actor: "user:local",
    address: "local",
    action,
    target: name === "" ? kind : `${kind.replace(/s$/, "")}:${name}`,
    outcome,
    ...(nodeId === undefined ? {} : { nodeId }),
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(outcome === "ok" ? { after: asked } : { details: { asked } }),
  };
}

function idOf(answer: unknown, field: string): string | undefined {
  if (typeof answer !== "object" || answer === null) return undefined;
  const inner: unknown = Object.entries(answer).find(([name]) => name === field)?.[1];
  return textOf(inner, "id");
}

function textOf(value: unknown, field: string): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const found: unknown = Object.entries(value).find(([name]) => name === field)?.[1];
  return typeof found === "string" && found !== "" ? found : undefined;
}
