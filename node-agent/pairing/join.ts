import { X509Certificate } from "node:crypto";
import { join } from "node:path";
import type { FaultCode } from "../../shared/fault/codes.ts";
import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import { Pairing, type PairingEnrolResponse } from "../../shared/gen/fairlead/v1/pairing_pb.ts";
import { judgeGateway } from "../../shared/identity/gateway-peer.ts";
import { parseJoinCode, type JoinCode } from "../../shared/identity/join-code.ts";
import { createCertificateRequest, createKeyPem, publicKeyOf } from "../../shared/identity/keys.ts";
import { nodeIdOf, tryReadCertificate } from "../../shared/identity/node-name.ts";
import { pinOfPublicKey } from "../../shared/identity/pin.ts";
import {
  makePrivateFolder,
  readPrivateFile,
  removePrivate,
  writePrivateFile,
} from "../../shared/identity/private-files.ts";
import { protocolWindow, type ProtocolWindow } from "../../shared/identity/protocol.ts";
import { systemClock, type Clock } from "../../shared/lifetime/clock.ts";
import { parseAlias } from "../../shared/names/alias.ts";
import { openGrpcClient } from "../../shared/rpc/grpc-client.ts";
import {
  findIdentity,
  identityFiles,
  isKeyOf,
  joiningFolder,
  saveIdentity,
  type NodeIdentity,
} from "./identity.ts";
import { waitForApproval, type ApprovalWait } from "./wait-for-approval.ts";

/** What `joinGateway` takes. */
export interface JoinOptions {
  /** The code's text. */
  readonly code: string;
  /** The node's folder; held by the caller with `lockHome`. */
  readonly dir: string;
  /** The machine's host name, for people. */
  readonly hostName: string;
  /** `linux`, `darwin` or `win32`. */
  readonly platform: string;
  /** The agent's version. */
  readonly agentVersion: string;
  /** Protocol versions that the agent speaks; all of this version by default. */
  readonly protocol?: ProtocolWindow;
  /** The alias that the machine would like. */
  readonly wishedAlias?: string;
  /** Names of the workspaces that it means to export. */
  readonly workspaces?: readonly string[];
  /**
   * What becomes of a valid identity that is there already: `refuse` (the default), `same_key` to enrol its key again,
   * `new_key` to become another node.
   */
  readonly existing?: "refuse" | "same_key" | "new_key";
  /** Makes a key of its own where an unfinished join left one: that one is another machine's, whose home was copied. */
  readonly otherKey?: boolean;
  /** The request under which a join of this home waited before; empty: none. */
  readonly continues?: string;
  /** Hears how the wait for an administrator goes, when the code requires one; awaited before the wait goes on. */
  readonly onWait?: (wait: ApprovalWait) => Promise<void>;
  readonly clock?: Clock;
  readonly signal?: AbortSignal;
}

/** How a join ended. */
export interface JoinOutcome {
  readonly identity: NodeIdentity;
  /** What sessions may do on the node, as the gateway bounds it. */
  readonly profile: string;
  /** False when another alias was given than the machine would have liked. */
  readonly wishKept: boolean;
}

// All addresses together stay below the 25 s after which a join has to have ended.
const allAddressesMs = 22_000;
const answerTimeoutMs = 15_000;
const addressCodes: ReadonlySet<FaultCode> = new Set([
  "GATEWAY_UNREACHABLE",
  "PIN_MISMATCH",
  "DEADLINE_EXCEEDED",
]);
/**
 * Answers of the gateway after which it has no node with the key that asked. A machine that was rejected keeps its key:
 * asked again with the same code, the gateway then says that it was rejected.
 */
const refusals: ReadonlySet<FaultCode> = new Set([
  "JOIN_CODE_INVALID",
  "ALREADY_EXISTS",
  "VERSION_UNSUPPORTED",
  "INVALID_ARGUMENT",
]);

/**
 * Redeems a code: makes the machine's key, enrols at the first address that answers with the pinned key, and saves the
 * identity as a whole. Nothing is sent to a peer with another key. A join that was cut off anywhere is repeated with the
 * same code and costs no second use. With a code that requires approval it waits until an administrator decides, or the
 * signal aborts. Faults: `INVALID_ARGUMENT` (code, alias), `ALREADY_EXISTS`, `GATEWAY_UNREACHABLE` with the cause of each
 * address in the details, `PIN_MISMATCH`, `ENROLMENT_REJECTED`, and those of the gateway.
 */
export async function joinGateway(options: JoinOptions): Promise<JoinOutcome> {
  const code = parseJoinCode(options.code);
  if (options.wishedAlias) parseAlias(options.wishedAlias);
  const before = await findPresent(options);
  if (before && (options.existing ?? "refuse") === "refuse") throw alreadyPaired(before);
  const key = await keyOnDisk(options, before);
  const { keyPem } = key;
  const answer = await enrolKey(code, options, key);
  checkAnswer(answer, { code, keyPem });
  const identity = await saveIdentity(options.dir, {
    gateway: {
      id: answer.nodeId,
      alias: answer.alias,
      addresses: code.addresses,
      pins: [code.pin],
      trustSerial: 0,
    },
    certificatePem: new X509Certificate(answer.certificate).toString(),
  });
  return {
    identity,
    profile: answer.profile,
    wishKept: !options.wishedAlias || options.wishedAlias === answer.alias,
  };
}

/** The identity that is there. One that is damaged is none to whoever becomes another node: that is the way to mend it. */
async function findPresent({ dir, existing }: JoinOptions): Promise<NodeIdentity | undefined> {
  try {
    return await findIdentity(dir);
  } catch (error) {
    if (existing === "new_key" && isFault(error, "INTEGRITY_FAILURE")) return undefined;
    throw error;
  }
}

function alreadyPaired(identity: NodeIdentity): Fault {
  const gateway = identity.addresses[0] ?? "";
  return new Fault(
    "ALREADY_EXISTS",
    `this home is node ${identity.alias} of the gateway at ${gateway} already`,
    {
      details: { gateway, alias: identity.alias, nodeId: identity.nodeId },
      hint: "fairlead node run; to pair it anew: fairlead node leave, then fairlead node join CODE",
    },
  );
}

/** The key is on the disk before anything is dialled; a join that did not finish left it there, and it is used again. */
async function keyOnDisk(options: JoinOptions, before: NodeIdentity | undefined): Promise<JoiningKey> {
  const stage = joiningFolder(options.dir);
  const path = join(stage, identityFiles.key);
  const present = options.existing === "same_key" ? before?.keyPem : undefined;
  const kept = options.otherKey === true ? undefined : await readPrivateFile(path);
  if (kept && isUsableKey(kept.text) && (present ? kept.text === present : kept.text !== before?.keyPem)) {
    return { keyPem: kept.text, isFresh: false };
  }
  await makePrivateFolder(options.dir);
  await removePrivate(stage);
  await makePrivateFolder(stage);
  const keyPem = present ?? (await createKeyPem());
  await writePrivateFile(path, keyPem);
  return { keyPem, isFresh: true };
}

interface JoiningKey {
  readonly keyPem: string;
  /** Whether it is of this join; one that an earlier join left may be a node already whose answer got lost. */
  readonly isFresh: boolean;
}

function isUsableKey(keyPem: string): boolean {
  try {
    return publicKeyOf(keyPem).length > 0;
  } catch {
    return false;
  }
}

async function enrolKey(
  code: JoinCode,
  options: JoinOptions,
  { keyPem, isFresh }: JoiningKey,
): Promise<PairingEnrolResponse> {
  try {
    const request = await createCertificateRequest(keyPem);
    const { clock = systemClock, onWait, signal } = options;
    return await waitForApproval({
      ask: (waitMs) => enrolAnywhere(code, { ...options, request, waitMs }),
      gateway: code.pin,
      machine: pinOfPublicKey(publicKeyOf(keyPem)),
      clock,
      onWait,
      signal,
    });
  } catch (error) {
    const isOver = isFault(error) && isFresh && refusals.has(error.code);
    // A key that was revoked is good for nothing, and a join that was refused leaves nothing.
    if (isOver || isFault(error, "IDENTITY_REVOKED")) await removePrivate(joiningFolder(options.dir));
    throw error;
  }
}

type Attempt = JoinOptions & {
  /** The certificate request, DER. */
  readonly request: Uint8Array;
  /** How long the gateway may keep the call, in milliseconds. */
  readonly waitMs: number;
};

async function enrolAnywhere(code: JoinCode, attempt: Attempt): Promise<PairingEnrolResponse> {
  const failures: { readonly address: string; readonly fault: Fault }[] = [];
  const connectTimeoutMs = Math.floor(allAddressesMs / code.addresses.length);
  for (const address of code.addresses) {
    attempt.signal?.throwIfAborted();
    try {
      return await enrolAt(address, code, { ...attempt, connectTimeoutMs });
    } catch (error) {
      attempt.signal?.throwIfAborted();
      const fault = faultFromError(error);
      if (!isAboutAddress(fault)) throw fault;
      failures.push({ address, fault });
    }
  }
  throw nowhere(failures);
}

/** Whether another address may do better; what the right gateway answered is final. */
function isAboutAddress(fault: Fault): boolean {
  return addressCodes.has(fault.code) || (fault.code === "UNAUTHENTICATED" && "reason" in fault.details);
}

function nowhere(failures: readonly { readonly address: string; readonly fault: Fault }[]): Fault {
  const stranger = failures.find(({ fault }) => isFault(fault, "PIN_MISMATCH"));
  const causes = failures.map(({ address, fault }) => ({
    address,
    code: fault.code,
    cause: fault.message,
  }));
  if (stranger) return stranger.fault.with({ details: { address: stranger.address, addresses: causes } });
  const list = causes.map(({ address, cause }) => `${address}: ${cause}`).join("; ");
  return new Fault("GATEWAY_UNREACHABLE", `no address of the join code answered (${list})`, {
    details: { addresses: causes },
    hint: "check that the gateway runs and can be reached from here; the code can still be used",
  });
}

async function enrolAt(
  address: string,
  code: JoinCode,
  attempt: Attempt & { readonly connectTimeoutMs: number },
): Promise<PairingEnrolResponse> {
  const { clock = systemClock, protocol = protocolWindow, signal } = attempt;
  await using client = openGrpcClient({
    address,
    security: () => ({ verifyPeer: (chain) => judgeGateway({ pins: [code.pin], clock }, chain) }),
    connectTimeoutMs: attempt.connectTimeoutMs,
    clock,
  });
  return await client.client(Pairing).enrol(
    {
      secret: code.secret,
      certificateRequest: attempt.request,
      wishedAlias: attempt.wishedAlias ?? "",
      hostName: attempt.hostName,
      platform: attempt.platform,
      agentVersion: attempt.agentVersion,
      workspaces: [...(attempt.workspaces ?? [])],
      protocolMin: protocol.min,
      protocolMax: protocol.max,
      waitMs: attempt.waitMs,
      continuesRequest: attempt.continues ?? "",
    },
    {
      deadlineMs: attempt.connectTimeoutMs + attempt.waitMs + answerTimeoutMs,
      ...(signal ? { signal } : {}),
    },
  );
}

/** The gateway is proved; still, what would not load later is not saved now. */
function checkAnswer(
  answer: PairingEnrolResponse,
  asked: { readonly code: JoinCode; readonly keyPem: string },
): void {
  const certificate = tryReadCertificate(answer.certificate);
  const authority = tryReadCertificate(answer.authority);
  const fits =
    certificate !== undefined &&
    authority !== undefined &&
    nodeIdOf(certificate) === answer.nodeId &&
    isKeyOf(asked.keyPem, certificate) &&
    certificate.verify(authority.publicKey);
  if (!fits)
    throw new Fault("INTEGRITY_FAILURE", "the gateway sent a certificate that is not for this machine's key");
}
