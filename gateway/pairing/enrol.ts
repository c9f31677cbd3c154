import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault } from "../../shared/fault/fault.ts";
import type { PairingEnrolRequest } from "../../shared/gen/fairlead/v1/pairing_pb.ts";
import { joinSecretBytes } from "../../shared/identity/join-code.ts";
import type { ProtocolWindow } from "../../shared/identity/protocol.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import type { Log } from "../../shared/log/log.ts";
import { parseAlias } from "../../shared/names/alias.ts";
import type { Store, StoreTransaction } from "../store/store.ts";
import type { JoinCodesTable, NodesTable } from "../store/tables.ts";
import { addNode, findNodeByKey, newNodeId, readmitNode, type Reported } from "./admit-node.ts";
import { type Asked, askToEnrol } from "./ask-to-enrol.ts";
import type { Authorities } from "./authorities.ts";
import { readCertificateRequest, type RequestedKey } from "./certificate-request.ts";
import { checkProtocol } from "./check-protocol.ts";
import { chooseAlias } from "./choose-alias.ts";
import { codeUnknown, findCode, takeUse } from "./codes.ts";
import { closeAsAdmitted } from "./decide-enrolment.ts";
import { gaveWayFault, pendingFault, rejectedFault, supersededFault } from "./enrolment-faults.ts";
import { toContent } from "./enrolment-rows.ts";
import type { EnrolmentLimits } from "./enrolments.ts";
import type { HeldCalls } from "./held-calls.ts";
import { issueNodeCertificate, type IssuedCertificate } from "./issue.ts";
import { toNodeRecord } from "./node-rows.ts";
import { revokedFault } from "./nodes-repository.ts";
import type { NodeRecord } from "./nodes.ts";
import type { CertificateLimits } from "./pairing-limits.ts";
import { admittedAs, type RecordChange } from "./record-change.ts";
import type { RefusedJoins } from "./refused-joins.ts";
import { toReportedText } from "./reported-text.ts";
import type { CallSource } from "./source-address.ts";
import type { WrongSecrets } from "./wrong-secrets.ts";

const maxAttempts = 3;
const maxHoldMs = 60_000;

/** What enrolling needs of the gateway. */
export interface EnrolDeps {
  readonly store: Store;
  readonly authority: Authorities;
  readonly clock: Clock;
  readonly wrongSecrets: WrongSecrets;
  readonly protocol: ProtocolWindow;
  readonly held: HeldCalls;
  readonly refused: RefusedJoins;
  readonly limits: EnrolmentLimits & CertificateLimits;
  readonly log: Log;
  readonly record: RecordChange;
}

/** A node with the certificate that it was just given. */
export interface Enrolled {
  readonly node: NodeRecord;
  readonly certificate: Uint8Array;
}

/** Who calls, and when the call is over. */
export interface EnrolCall {
  readonly from: CallSource;
  readonly signal: AbortSignal;
}

/**
 * Makes a machine a node, or gives a machine that is one with this key its certificate again. The use of the code and
 * the node are one transaction, so a machine that never heard the answer asks again and costs no second use. With a code
 * that requires approval the machine is asked about first, and the call is kept while nobody has decided, as long as the
 * machine allows. Faults: `ENROLMENT_PENDING`, `ENROLMENT_REJECTED`, `JOIN_CODE_INVALID` (`details.reason`),
 * `RATE_LIMITED` after too many wrong secrets of the address, `LIMIT_REACHED` for a request that gave way to others,
 * `VERSION_UNSUPPORTED`, `INVALID_ARGUMENT`, `IDENTITY_REVOKED` for a key that was revoked, `ALREADY_EXISTS` when the
 * code's alias was given away.
 */
export async function enrol(
  deps: EnrolDeps,
  request: PairingEnrolRequest,
  call: EnrolCall,
): Promise<Enrolled> {
  try {
    return await enrolMachine(deps, request, call);
  } catch (error) {
    deps.refused.count(call.from.address, faultFromError(error));
    throw error;
  }
}

async function enrolMachine(
  deps: EnrolDeps,
  request: PairingEnrolRequest,
  call: EnrolCall,
): Promise<Enrolled> {
  const code = await requireSecret(deps, request.secret, call.from.address);
  checkProtocol(deps.protocol, { min: request.protocolMin, max: request.protocolMax });
  // What waits for a person is shown as it came; what is admitted at once is an alias or nothing.
  if (request.wishedAlias && code.require_approval === 0) parseAlias(request.wishedAlias);
  const key = await readCertificateRequest(request.certificateRequest);
  if (code.require_approval === 1) await untilApproved(deps, { request, key, call });
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const nodeId = (await findNodeByKey(deps.store.db, key.digest))?.id ?? newNodeId();
    const now = deps.clock.now();
    // Signed before the transaction, which so never waits; what loses the race for the code is thrown away.
    const issued = await issueNodeCertificate(deps.authority.signer, {
      id: nodeId,
      publicKey: key.publicKey,
      now,
      lifeMs: deps.limits.certificateMs,
    });
    const node = await deps.store.transaction((db) =>
      admit(db, { request, key, nodeId, issued, now, call, record: deps.record }),
    );
    if (node) return { node, certificate: issued.der };
  }
  throw new Fault("CONFLICT", "this machine is being enrolled by other calls", { retryable: true });
}

/** Nothing is looked at, and nothing said, before the secret is one that this gateway made. */
async function requireSecret(deps: EnrolDeps, secret: Uint8Array, address: string): Promise<JoinCodesTable> {
  deps.wrongSecrets.check(address);
  const code = secret.length === joinSecretBytes ? await findCode(deps.store.db, secret, "node") : undefined;
  if (code) return code;
  deps.wrongSecrets.count(address);
  throw codeUnknown();
}

interface Machine {
  readonly request: PairingEnrolRequest;
  readonly key: RequestedKey;
  readonly call: EnrolCall;
}

/** Returns when nothing stands between the machine and its certificate; throws what does. */
async function untilApproved(deps: EnrolDeps, machine: Machine): Promise<void> {
  const { clock, held, limits, store } = deps;
  const { call, request } = machine;
  const giveUpAt = clock.now() + Math.min(request.waitMs, maxHoldMs);
  for (;;) {
    const asked = await store.transaction((db) => ask(db, machine, deps));
    if (!asked || asked.row.state === "approved") return;
    tell(deps, asked);
    const { row } = asked;
    if (row.state !== "pending") throw rejectedFault(row);
    const leftMs = Math.min(giveUpAt, row.expires_at) - clock.now();
    if (leftMs <= 0) throw pendingFault(row);
    const isOpen = async (): Promise<boolean> =>
      (await store.db
        .selectFrom("enrolment_requests")
        .select("id")
        .where("id", "=", row.id)
        .where("state", "=", "pending")
        .executeTakeFirst()) !== undefined;
    const end = await held.hold(row.id, { timeoutMs: leftMs, signal: call.signal, isOpen });
    if (end === "gave_way") throw gaveWayFault(row.id, limits.pendingRequestsPerAddress);
    if (end === "superseded") throw supersededFault(row.id);
    if (end === "displaced" || (end === "time" && clock.now() < row.expires_at)) throw pendingFault(row);
  }
}

/** The machine's request, or undefined for one that was let in with this code. */
async function ask(db: StoreTransaction, machine: Machine, deps: EnrolDeps): Promise<Asked | undefined> {
  const { request, key, call } = machine;
  const code = await requireCode(db, request);
  const known = await findNodeByKey(db, key.digest);
  if (known) requireNotRevoked(known);
  if (known?.code_id === code.id) return undefined;
  return await askToEnrol(db, {
    code,
    content: toContent(request, { code, keyDigest: key.digest }),
    continues: request.continuesRequest,
    from: call.from,
    gateway: deps.authority.signer.pin,
    limits: deps.limits,
    now: deps.clock.now(),
  });
}

/** Says what is new, to the log and to the calls of those who had to give way. */
function tell({ held, log }: EnrolDeps, asked: Asked): void {
  const { row, superseded, gaveWay } = asked;
  if (superseded !== undefined) held.end(superseded, "superseded");
  for (const id of gaveWay) held.end(id, "gave_way");
  if (!asked.isNew) return;
  log.info("enrolment requested", {
    requestId: row.id,
    address: row.address,
    hostName: row.host_name,
    wishedName: row.wished_name,
    ...(superseded === undefined ? {} : { insteadOf: superseded }),
  });
}

interface Admission {
  readonly request: PairingEnrolRequest;
  readonly key: RequestedKey;
  readonly nodeId: string;
  readonly issued: IssuedCertificate;
  readonly now: number;
  readonly call: EnrolCall;
  readonly record: RecordChange;
}

/** The node, or undefined when things changed meanwhile and have to be looked at again. */
async function admit(db: StoreTransaction, admission: Admission): Promise<NodeRecord | undefined> {
  const { request, key, nodeId, issued, now } = admission;
  const code = await requireCode(db, request);
  const known = await findNodeByKey(db, key.digest);
  if (known) requireNotRevoked(known);
  if (known && known.id !== nodeId) return undefined;
  if (code.require_approval === 1 && !known) return undefined;
  if (known?.code_id !== code.id && code.require_approval === 0) await takeUse(db, code, now);
  const reported = reportedBy(request);
  const node = known
    ? await readmitNode(db, known, {
        ...reported,
        code_id: code.id,
        certificate_expires_at: issued.expiresAt,
        issuer_pin: issued.issuerPin,
      })
    : await addNode(db, {
        ...reported,
        id: nodeId,
        alias: await chooseAlias(db, {
          invited: code.alias,
          isForOne: code.uses === 1,
          wish: request.wishedAlias,
          nodeId,
          now,
        }),
        labels_json: code.labels_json,
        profile: code.profile,
        note: code.note,
        key_digest: key.digest,
        code_id: code.id,
        paired_at: now,
        certificate_expires_at: issued.expiresAt,
        issuer_pin: issued.issuerPin,
      });
  await closeAsAdmitted(db, { id: node.id, keyDigest: key.digest }, now);
  if (known?.code_id !== code.id) {
    await admission.record(db, {
      actor: `node:${node.id}`,
      address: admission.call.from.address,
      action: "nodes.enrol",
      target: `node:${node.id}`,
      outcome: "ok",
      after: admittedAs(node),
      nodeId: node.id,
    });
  }
  return node;
}

async function requireCode(db: StoreTransaction, request: PairingEnrolRequest): Promise<JoinCodesTable> {
  const code = await findCode(db, request.secret, "node");
  if (!code) throw codeUnknown();
  return code;
}

function requireNotRevoked(known: NodesTable): void {
  if (known.revoked_at !== null) throw revokedFault(toNodeRecord(known));
}

function reportedBy(request: PairingEnrolRequest): Reported {
  return {
    host_name: toReportedText(request.hostName),
    platform: toReportedText(request.platform),
    agent_version: toReportedText(request.agentVersion),
  };
}
