import type { MessageInitShape } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import {
  AuthorityStep,
  type Authority as AuthorityService,
  type AuthorityKeySchema,
  type AuthorityStatusSchema,
} from "../../shared/gen/fairlead/v1/authority_pb.ts";
import type { ServiceImplementation } from "../../shared/rpc/service.ts";
import type { AuditEntry } from "../audit/audit-record.ts";
import type { Authority } from "../pairing/authority.ts";
import type { AuthorityChange, AuthorityStep as Step } from "../pairing/change-authority.ts";
import { actorOf } from "./record-changes.ts";

/** What the service stands on. */
export interface AuthorityFaceOptions {
  readonly change: AuthorityChange;
  /** Keeps a record. */
  readonly record: (entry: AuditEntry) => Promise<void>;
}

/** The service that changes the authority's key. Whoever serves it has checked who asks. */
export function createAuthorityFace({
  change,
  record,
}: AuthorityFaceOptions): ServiceImplementation<typeof AuthorityService> {
  return {
    getAuthority: async () => ({ status: await toStatus(change) }),
    changeAuthority: async (request, context) => {
      const step = toStep(request.step);
      const before = change.authorities.signer.pin;
      await change.take(step, { force: request.force });
      const { phase, signer } = change.authorities;
      await record({
        ...actorOf(context),
        action: `authority.${step}`,
        target: `authority:${signer.pin}`,
        outcome: "ok",
        before: { signer: before },
        after: { phase, signer: signer.pin, force: request.force },
      });
      return { status: await toStatus(change) };
    },
  };
}

function toStep(step: AuthorityStep): Step {
  switch (step) {
    case AuthorityStep.ANNOUNCE:
      return "announce";
    case AuthorityStep.SWITCH:
      return "switch";
    case AuthorityStep.RETIRE:
      return "retire";
    case AuthorityStep.ABORT:
      return "abort";
    case AuthorityStep.UNSPECIFIED:
      break;
  }
  throw new Fault("INVALID_ARGUMENT", "no step of the change was named", { details: { field: "step" } });
}

async function toStatus(change: AuthorityChange): Promise<MessageInitShape<typeof AuthorityStatusSchema>> {
  const { phase, sinceMs, current, next, signer } = change.authorities;
  return {
    phase,
    sinceMs: BigInt(Math.round(sinceMs)),
    current: toKey(current),
    ...(next ? { next: toKey(next) } : {}),
    signerPin: signer.pin,
    nodes: (await change.nodes()).map((node) => ({ ...node, trustedPins: [...node.trustedPins] })),
  };
}

function toKey({ pin, certificate }: Authority): MessageInitShape<typeof AuthorityKeySchema> {
  return { pin, expiresMs: BigInt(certificate.validToDate.getTime()) };
}
