import type { MessageInitShape } from "@bufbuild/protobuf";
import type {
  Admin,
  EnrolmentRequestSchema,
  NodeSummarySchema,
} from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { ServiceImplementation } from "../../shared/rpc/service.ts";
import { approveCommand } from "../pairing/enrolment-faults.ts";
import type { EnrolmentRequest, Enrolments } from "../pairing/enrolments.ts";
import type { NodeRecord } from "../pairing/nodes.ts";
import { actorOf } from "./record-changes.ts";

/** What the methods about enrolment stand on. */
export interface EnrolmentMethodsOptions {
  readonly enrolments: Enrolments;
  /** A node as lists show it. */
  readonly summary: (node: NodeRecord) => MessageInitShape<typeof NodeSummarySchema>;
}

/** The administrators' methods about machines that wait to be admitted. */
export function enrolmentMethods(options: EnrolmentMethodsOptions): ServiceImplementation<typeof Admin> {
  const { enrolments, summary } = options;
  return {
    listEnrolments: async () => ({
      requests: (await enrolments.list()).map(toMessage),
      refused: enrolments.refused().map((one) => ({
        address: one.address,
        code: one.code,
        reason: one.reason,
        count: one.count,
        firstSeenMs: BigInt(one.firstSeenAt),
        lastSeenMs: BigInt(one.lastSeenAt),
      })),
    }),
    approveEnrolment: async ({ id, alias, labels, profile }, context) => {
      const as = { alias, labels, profile, by: actorOf(context) };
      const { request, node, already } = await enrolments.approve(id, as);
      return {
        node: summary(node),
        already,
        requestId: request.id,
        comparisonCode: request.comparisonCode,
      };
    },
    rejectEnrolment: async ({ id }, context) => {
      const { request, already } = await enrolments.reject(id, { by: actorOf(context) });
      return { request: toMessage(request), already };
    },
  };
}

function toMessage(request: EnrolmentRequest): MessageInitShape<typeof EnrolmentRequestSchema> {
  return {
    id: request.id,
    wishedName: request.wishedName,
    hostName: request.hostName,
    platform: request.platform,
    agentVersion: request.agentVersion,
    key: request.key,
    address: request.address,
    workspaces: [...request.workspaces],
    labels: { ...request.labels },
    profile: request.profile,
    alias: request.alias,
    note: request.note,
    comparisonCode: request.comparisonCode,
    askedMs: BigInt(request.askedAt),
    seenMs: BigInt(request.seenAt),
    expiresMs: BigInt(request.expiresAt),
    connected: request.connected,
    command: approveCommand(request.id),
  };
}
