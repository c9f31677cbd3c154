import { randomBytes } from "node:crypto";
import { Fault } from "../../shared/fault/fault.ts";
import type { PairingEnrolRequest } from "../../shared/gen/fairlead/v1/pairing_pb.ts";
import { joinSecretBytes } from "../../shared/identity/join-code.ts";
import type { ProtocolWindow } from "../../shared/identity/protocol.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { parseAlias } from "../../shared/names/alias.ts";
import type { Store, StoreTransaction } from "../store/store.ts";
import type { JoinCodesTable, NodesTable } from "../store/tables.ts";
import type { Authority } from "./authority.ts";
import { readCertificateRequest, type RequestedKey } from "./certificate-request.ts";
import { checkProtocol } from "./check-protocol.ts";
import { chooseAlias } from "./choose-alias.ts";
import { codeUnknown, findCode, takeUse } from "./codes.ts";
import { issueNodeCertificate, type IssuedCertificate } from "./issue.ts";
import { toNodeRecord } from "./node-rows.ts";
import { revokedFault } from "./nodes-repository.ts";
import type { NodeRecord } from "./nodes.ts";
import { toReportedText } from "./reported-text.ts";
import type { WrongSecrets } from "./wrong-secrets.ts";

const maxAttempts = 3;

/** What enrolling needs of the gateway. */
export interface EnrolDeps {
  readonly store: Store;
  readonly authority: Authority;
  readonly clock: Clock;
  readonly wrongSecrets: WrongSecrets;
  readonly protocol: ProtocolWindow;
}

/** A node with the certificate that it was just given. */
export interface Enrolled {
  readonly node: NodeRecord;
  readonly certificate: Uint8Array;
}

/**
 * Makes a machine a node, or gives a machine that is one with this key its certificate again. The use of the code and
 * the node are one transaction, so a machine that never heard the answer asks again and costs no second use. Faults:
 * `JOIN_CODE_INVALID` (`details.reason`), `RATE_LIMITED` after too many wrong secrets of the address,
 * `VERSION_UNSUPPORTED`, `INVALID_ARGUMENT`, `IDENTITY_REVOKED` for a key that was revoked, `ALREADY_EXISTS` when the
 * invite's alias was given away.
 */
export async function enrol(
  deps: EnrolDeps,
  request: PairingEnrolRequest,
  address: string,
): Promise<Enrolled> {
  await requireSecret(deps, request.secret, address);
  checkProtocol(deps.protocol, { min: request.protocolMin, max: request.protocolMax });
  if (request.wishedAlias) parseAlias(request.wishedAlias);
  const key = await readCertificateRequest(request.certificateRequest);
  for (let attempt = 0; attempt < maxAttempts; attempt += 1) {
    const nodeId = (await findByKey(deps.store.db, key))?.id ?? newNodeId();
    const now = deps.clock.now();
    // Signed before the transaction, which so never waits; what loses the race for the code is thrown away.
    const issued = await issueNodeCertificate(deps.authority, { id: nodeId, publicKey: key.publicKey, now });
    const node = await deps.store.transaction((db) => admit(db, { request, key, nodeId, issued, now }));
    if (node) return { node, certificate: issued.der };
  }
  throw new Fault("CONFLICT", "this machine is being enrolled by other calls", { retryable: true });
}

/** Nothing is looked at, and nothing said, before the secret is one that this gateway made. */
async function requireSecret(deps: EnrolDeps, secret: Uint8Array, address: string): Promise<void> {
  deps.wrongSecrets.check(address);
  const code = secret.length === joinSecretBytes ? await findCode(deps.store.db, secret, "node") : undefined;
  if (code) return;
  deps.wrongSecrets.count(address);
  throw codeUnknown();
}

interface Admission {
  readonly request: PairingEnrolRequest;
  readonly key: RequestedKey;
  readonly nodeId: string;
  readonly issued: IssuedCertificate;
  readonly now: number;
}

/** The node, or undefined when the same machine asked twice at once and the other call has made another id of it. */
async function admit(db: StoreTransaction, admission: Admission): Promise<NodeRecord | undefined> {
  const code = await findCode(db, admission.request.secret, "node");
  if (!code) throw codeUnknown();
  const known = await findByKey(db, admission.key);
  if (known && known.revoked_at !== null) throw revokedFault(toNodeRecord(known));
  if (known && known.id !== admission.nodeId) return undefined;
  if (known?.code_id !== code.id) await takeUse(db, code, admission.now);
  return known ? await readmit(db, known, { ...admission, code }) : await add(db, { ...admission, code });
}

type AdmissionByCode = Admission & { readonly code: JoinCodesTable };

/** Alias, labels and profile are the administrator's and stay; what the machine says about itself is written anew. */
async function readmit(
  db: StoreTransaction,
  known: NodesTable,
  admission: AdmissionByCode,
): Promise<NodeRecord> {
  const changes = {
    ...reported(admission.request),
    code_id: admission.code.id,
    certificate_expires_at: admission.issued.expiresAt,
  };
  await db.updateTable("nodes").set(changes).where("id", "=", known.id).execute();
  return toNodeRecord({ ...known, ...changes });
}

async function add(db: StoreTransaction, admission: AdmissionByCode): Promise<NodeRecord> {
  const { code, nodeId, now, request } = admission;
  const row: NodesTable = {
    id: nodeId,
    alias: await chooseAlias(db, { code, wish: request.wishedAlias, nodeId, now }),
    labels_json: code.labels_json,
    profile: code.profile,
    key_digest: admission.key.digest,
    code_id: code.id,
    paired_at: now,
    certificate_expires_at: admission.issued.expiresAt,
    revoked_at: null,
    note: code.note,
    ...reported(request),
  };
  await db.insertInto("nodes").values(row).execute();
  return toNodeRecord(row);
}

function reported(
  request: PairingEnrolRequest,
): Pick<NodesTable, "host_name" | "platform" | "agent_version"> {
  return {
    host_name: toReportedText(request.hostName),
    platform: toReportedText(request.platform),
    agent_version: toReportedText(request.agentVersion),
  };
}

async function findByKey(
  db: StoreTransaction | Store["db"],
  key: RequestedKey,
): Promise<NodesTable | undefined> {
  return await db.selectFrom("nodes").selectAll().where("key_digest", "=", key.digest).executeTakeFirst();
}

/** 80 random bits; the first digit is a decimal one, so that no id is ever an alias. */
function newNodeId(): string {
  const [first = 0, ...rest] = randomBytes(11);
  return `${first % 10}${Buffer.from(rest).toString("hex").slice(0, 19)}`;
}
