import { type DescService, type Message, toJson } from "@bufbuild/protobuf";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import type { JsonValue } from "../../shared/fault/fault.ts";
import { Admin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import { Sessions } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import { localPrincipal } from "../../shared/rpc/principal.ts";
import type { CallContext, ServiceImplementation } from "../../shared/rpc/service.ts";
import type { AuditEntry } from "../audit/audit-record.ts";
import type { Audit } from "../audit/audit.ts";
import { sourceOf } from "../pairing/source-address.ts";
import type { RefusedCall } from "./require-role.ts";

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
  addUser: { action: "users.add" },
  removeUser: { action: "users.remove" },
  setUserRole: { action: "users.role" },
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

type Method = (request: unknown, context: CallContext) => Promise<unknown>;

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
        await options.audit.append(toEntry(change, { asked, answer: undefined, outcome: code, context }));
        throw error;
      }
      if (change.refusalsOnly !== true) {
        await options.audit.append(toEntry(change, { asked, answer, outcome: "ok", context }));
      }
      return answer;
    });
  }
  return { ...implementation, ...Object.fromEntries(recorded) };
}

/** Records that somebody was refused a change for their role; looking leaves no record. */
export async function recordRefused(
  audit: Pick<Audit, "append">,
  { method, request, context, fault }: RefusedCall,
): Promise<void> {
  const all = { [Admin.typeName]: adminChanges, [Sessions.typeName]: sessionChanges };
  const change = all[method.parent.typeName]?.[method.localName];
  if (!change) return;
  const asked = toJson(method.input, request as Message) as JsonValue;
  await audit.append(toEntry(change, { asked, answer: undefined, outcome: fault.code, context }));
}

interface Done {
  readonly asked: JsonValue;
  readonly answer: unknown;
  readonly outcome: string;
  readonly context: CallContext;
}

function toEntry({ action }: RecordedMethod, { asked, answer, outcome, context }: Done): AuditEntry {
  const nodeId = idOf(answer, "node");
  const sessionId = idOf(answer, "session") ?? textOf(asked, "session");
  const name =
    nodeId ?? sessionId ?? textOf(asked, "node") ?? textOf(asked, "id") ?? textOf(asked, "name") ?? "";
  const [kind = ""] = action.split(".", 1);
  return {
    ...actorOf(context),
    action,
    target: name === "" ? kind : `${kind.replace(/s$/, "")}:${name}`,
    outcome,
    ...(nodeId === undefined ? {} : { nodeId }),
    ...(sessionId === undefined ? {} : { sessionId }),
    ...(outcome === "ok" ? { after: asked } : { details: { asked } }),
  };
}

/** Who changes something, and from where, for the record. */
export function actorOf({ principal, peer }: Pick<CallContext, "principal" | "peer">): {
  readonly actor: string;
  readonly address: string;
} {
  // The local socket takes its owner only.
  if (principal?.tokenId === undefined) return { actor: `user:${localPrincipal.user}`, address: "local" };
  return { actor: `user:${principal.user}`, address: sourceOf(peer.address).address };
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
