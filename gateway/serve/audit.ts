import { fromJson, type JsonValue as WireJson, type MessageInitShape } from "@bufbuild/protobuf";
import { type Value, ValueSchema } from "@bufbuild/protobuf/wkt";
import type { JsonValue } from "../../shared/fault/fault.ts";
import type {
  AuditEntrySchema,
  Audit as AuditService,
  AuditQueryRequest,
} from "../../shared/gen/fairlead/v1/audit_pb.ts";
import type { ServiceImplementation } from "../../shared/rpc/service.ts";
import type { AuditRecord } from "../audit/audit-record.ts";
import type { Audit, AuditFilter } from "../audit/audit.ts";
import type { Nodes } from "../pairing/nodes.ts";

/** What the service stands on. */
export interface AuditFaceOptions {
  readonly audit: Pick<Audit, "query" | "follow" | "verify" | "last">;
  readonly nodes: Pick<Nodes, "resolve">;
}

/** The service that reads the record. Whoever serves it has checked who asks. */
export function createAuditFace(options: AuditFaceOptions): ServiceImplementation<typeof AuditService> {
  const { audit } = options;
  return {
    query: async function* (request, { signal }) {
      const filter = await toFilter(request, options);
      const records = request.follow ? audit.follow(filter, { signal }) : audit.query(filter, { signal });
      for await (const record of records) yield { records: [toMessage(record)] };
    },
    verify: async (_, { signal }) => {
      const { first, last, records, files } = await audit.verify({ signal });
      return { first: BigInt(first), last: BigInt(last), records: BigInt(records), files };
    },
  };
}

async function toFilter(request: AuditQueryRequest, options: AuditFaceOptions): Promise<AuditFilter> {
  const nodeId = request.node === "" ? undefined : (await options.nodes.resolve(request.node)).id;
  const after = request.last === 0 ? undefined : Math.max(0, (await options.audit.last()) - request.last);
  return {
    ...(nodeId === undefined ? {} : { nodeId }),
    ...(request.session === "" ? {} : { sessionId: request.session }),
    ...(request.call === "" ? {} : { callId: request.call }),
    ...(request.action === "" ? {} : { action: request.action }),
    ...(request.sinceMs === 0n ? {} : { sinceMs: Number(request.sinceMs) }),
    ...(after === undefined ? {} : { afterSequence: after }),
  };
}

function toMessage(record: AuditRecord): MessageInitShape<typeof AuditEntrySchema> {
  const { before, after, details } = record;
  return {
    sequence: BigInt(record.sequence),
    timeMs: BigInt(Date.parse(record.time)),
    actor: record.actor,
    address: record.address ?? "",
    action: record.action,
    target: record.target,
    outcome: record.outcome,
    node: record.nodeId ?? "",
    session: record.sessionId ?? "",
    call: record.callId ?? "",
    ...(before === undefined ? {} : { before: toValue(before) }),
    ...(after === undefined ? {} : { after: toValue(after) }),
    ...(details === undefined ? {} : { details: toValue(details) }),
  };
}

function toValue(value: JsonValue): Value {
  return fromJson(ValueSchema, value as WireJson);
}
