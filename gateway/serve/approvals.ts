import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  Admin,
  AdminDecideApprovalRequest,
  ApprovalSchema,
  StandingGrantSchema,
} from "../../shared/gen/fairlead/v1/admin_pb.ts";
import { localPrincipal, type Principal } from "../../shared/rpc/principal.ts";
import type { ServiceImplementation } from "../../shared/rpc/service.ts";
import { type Approval, type ApprovalAnswer, approvalLimits } from "../approvals/approvals.ts";
import type { Grant } from "../approvals/grants.ts";
import type { AdminFaceOptions } from "./admin.ts";

type Methods = Pick<
  ServiceImplementation<typeof Admin>,
  "listApprovals" | "decideApproval" | "listGrants" | "revokeGrant"
>;

/** What waits for people, and what they allowed for a time. */
export function approvalMethods(
  options: Pick<AdminFaceOptions, "approvals" | "grants" | "aliasOf">,
): Methods {
  const shown = async (approval: Approval): Promise<MessageInitShape<typeof ApprovalSchema>> => ({
    id: approval.id,
    state: approval.state,
    title: approval.title,
    detail: approval.detail,
    agent: approval.agent,
    session: approval.sessionId ?? "",
    node: approval.nodeId === undefined ? "" : await options.aliasOf(approval.nodeId),
    rule: approval.rule,
    askedMs: BigInt(approval.askedAt),
    expiresMs: BigInt(approval.expiresAt),
    digest: approval.digest,
  });
  const toWire = async (grant: Grant): Promise<MessageInitShape<typeof StandingGrantSchema>> => ({
    id: grant.id,
    agent: grant.agent,
    session: grant.sessionId ?? "",
    tool: grant.tool ?? "",
    nodeId: grant.nodeId,
    node: await options.aliasOf(grant.nodeId),
    workspace: grant.workspace,
    kind: grant.kind,
    requestedPath: grant.requestedPath,
    canonicalPath: grant.canonicalPath,
    createdMs: BigInt(grant.createdAt),
    expiresMs: BigInt(grant.expiresAt),
    approvalId: grant.approvalId,
    grantedBy: grant.grantedBy,
  });
  return {
    listApprovals: async (request) => {
      const approvals = await options.approvals.list({ all: request.all });
      return { approvals: await Promise.all(approvals.map(shown)) };
    },
    decideApproval: async (request, { principal = localPrincipal }) => ({
      approval: await shown(await options.approvals.decide(request.id, toAnswer(request, principal))),
    }),
    listGrants: async () => ({ grants: await Promise.all(options.grants.list().map(toWire)) }),
    revokeGrant: async ({ id }) => ({ grant: await toWire(await options.grants.revoke(id)) }),
  };
}

function toAnswer(
  { allow, always, grantMs }: AdminDecideApprovalRequest,
  { user }: Principal,
): ApprovalAnswer {
  const lifeMs = grantMs === 0n ? approvalLimits.grantMs : Number(grantMs);
  return { allow, by: user, ...(always ? { grantMs: lifeMs } : {}) };
}
