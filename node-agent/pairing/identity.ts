import { createPrivateKey, createPublicKey, type X509Certificate } from "node:crypto";
import { lstat, rename } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf, faultFromErrno } from "../../shared/fault/fault-from-errno.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { isP256 } from "../../shared/identity/keys.ts";
import { nodeIdOf, tryReadCertificate } from "../../shared/identity/node-name.ts";
import type { Pin } from "../../shared/identity/pin.ts";
import {
  publishFolder,
  readPrivateFile,
  removePrivate,
  syncFolder,
  writePrivateFile,
} from "../../shared/identity/private-files.ts";
import { formatGatewayRecord, parseGatewayRecord, type GatewayRecord } from "./gateway-record.ts";

/**
 * The identity on disk: three files in one folder that is written beside its place and renamed, so it is there as a
 * whole or not at all.
 *
 *     identity.new/  a join that has not finished: the key, which a retry uses again
 *     identity/      key.pem cert.pem gateway.json
 *     identity.old/  the one before, while another takes its place; put back when that did not happen
 */
export interface NodeIdentity {
  readonly nodeId: string;
  /** As it was when the node enrolled; for people. */
  readonly alias: string;
  /** Where the gateway is reached, `HOST:PORT`. */
  readonly addresses: readonly string[];
  /** The pin of the authority's public key; the first of `pins`. */
  readonly pin: Pin;
  /** Every authority that is taken for the gateway's: two while its key is being changed. */
  readonly pins: readonly Pin[];
  /** The serial of the statement that named them; 0: none has. */
  readonly trustSerial: number;
  /** PKCS#8, PEM. */
  readonly keyPem: string;
  readonly certificatePem: string;
  /** From when the certificate is valid, in milliseconds since 1970. */
  readonly certificateBeganAt: number;
  /** When the certificate ends, in milliseconds since 1970. */
  readonly certificateExpiresAt: number;
}

/** Names of the files of an identity. */
export const identityFiles = { key: "key.pem", certificate: "cert.pem", gateway: "gateway.json" } as const;

/** Where a node's identity lies in its folder. */
function identityFolder(dir: string): string {
  return join(dir, "identity");
}

/** Where a join keeps its key until it has succeeded. */
export function joiningFolder(dir: string): string {
  return join(dir, "identity.new");
}

/**
 * The identity in a node's folder. `NOT_FOUND` with the hint to join when there is none; otherwise as `findIdentity`.
 */
export async function loadIdentity(dir: string): Promise<NodeIdentity> {
  const found = await findIdentity(dir);
  if (found) return found;
  throw new Fault("NOT_FOUND", "this home has no identity: the machine is paired with no gateway", {
    hint: "fairlead node join CODE",
  });
}

/**
 * The identity in a node's folder, or undefined. It is used as a whole or not at all: `INTEGRITY_FAILURE` when a file is
 * missing, damaged or another identity's (`details.path` names it), `POLICY_DENIED` of side `node` when others may read
 * the key. An expired certificate is no fault here.
 */
export async function findIdentity(dir: string): Promise<NodeIdentity | undefined> {
  await putBackOld(dir);
  const folder = identityFolder(dir);
  if (!(await exists(folder))) return undefined;
  const key = await readKey(folder);
  const { pem, certificate } = await readCertificate(folder);
  const gateway = await readGateway(folder);
  requireAgreement({ key, certificate, gateway });
  return toIdentity(gateway, { keyPem: key, certificatePem: pem, certificate });
}

interface ReadFiles {
  readonly key: string;
  readonly certificate: X509Certificate;
  readonly gateway: GatewayRecord;
}

/** All three are of one node; of two that agree and one that does not, the one is named. */
function requireAgreement({ key, certificate, gateway }: ReadFiles): void {
  const nodeId = nodeIdOf(certificate);
  if (nodeId === undefined) throw broken(identityFiles.certificate, "is no certificate of a node");
  const fitsKey = isKeyOf(key, certificate);
  const fitsRecord = nodeId === gateway.id;
  if (fitsKey && fitsRecord) return;
  if (fitsRecord) throw broken(identityFiles.key, "is not the key of identity/cert.pem");
  if (fitsKey) throw broken(identityFiles.gateway, "is the record of another node than identity/cert.pem");
  throw broken(
    identityFiles.certificate,
    "is of another node than identity/key.pem and identity/gateway.json",
  );
}

async function readKey(folder: string): Promise<string> {
  const file = await readPrivateFile(join(folder, identityFiles.key));
  if (!file) throw broken(identityFiles.key, "is missing");
  if (process.platform !== "win32" && (file.mode & 0o077) !== 0) {
    const mode = file.mode.toString(8).padStart(4, "0");
    throw new Fault("POLICY_DENIED", `identity/key.pem has mode ${mode}: others than its owner may read it`, {
      details: { side: "node", rule: "identity_private", path: "identity/key.pem" },
      hint: `chmod 600 ${join(folder, identityFiles.key)}`,
    });
  }
  return file.text;
}

async function readCertificate(
  folder: string,
): Promise<{ readonly pem: string; readonly certificate: X509Certificate }> {
  const file = await readPrivateFile(join(folder, identityFiles.certificate));
  if (!file) throw broken(identityFiles.certificate, "is missing");
  const certificate = tryReadCertificate(file.text);
  if (!certificate) throw broken(identityFiles.certificate, "is no certificate");
  return { pem: file.text, certificate };
}

async function readGateway(folder: string): Promise<GatewayRecord> {
  const file = await readPrivateFile(join(folder, identityFiles.gateway));
  if (!file) throw broken(identityFiles.gateway, "is missing");
  const record = parseGatewayRecord(file.text);
  if (!record) throw broken(identityFiles.gateway, "is no record of a gateway");
  return record;
}

/** Whether `keyPem` is a P-256 key, and that of the certificate. */
export function isKeyOf(keyPem: string, certificate: X509Certificate): boolean {
  try {
    const key = createPublicKey(createPrivateKey(keyPem));
    return isP256(key) && key.equals(certificate.publicKey);
  } catch {
    return false;
  }
}

function toIdentity(
  gateway: GatewayRecord,
  material: {
    readonly keyPem: string;
    readonly certificatePem: string;
    readonly certificate: X509Certificate;
  },
): NodeIdentity {
  return {
    nodeId: gateway.id,
    alias: gateway.alias,
    addresses: gateway.addresses,
    ...trustOf(gateway),
    keyPem: material.keyPem,
    certificatePem: material.certificatePem,
    certificateBeganAt: material.certificate.validFromDate.getTime(),
    certificateExpiresAt: material.certificate.validToDate.getTime(),
  };
}

/** A fault of an identity's file, with the way to repair it. */
function broken(name: string, how: string): Fault {
  return new Fault("INTEGRITY_FAILURE", `identity/${name} ${how}`, {
    retryable: false,
    details: { path: `identity/${name}` },
    hint: "put the file back from a backup, or become another node: fairlead node join CODE --new-identity",
  });
}

/** What a finished join saves beside the key that already lies in the joining folder. */
export interface NewIdentity {
  readonly gateway: GatewayRecord;
  readonly certificatePem: string;
}

/** Completes the joining folder and puts it in its place in one step; the identity before it, if any, is erased. */
export async function saveIdentity(dir: string, identity: NewIdentity): Promise<NodeIdentity> {
  const stage = joiningFolder(dir);
  await writePrivateFile(join(stage, identityFiles.certificate), identity.certificatePem);
  await writePrivateFile(join(stage, identityFiles.gateway), formatGatewayRecord(identity.gateway));
  await setOldAside(dir);
  await publishFolder(stage, identityFolder(dir));
  await removePrivate(oldFolder(dir));
  return await loadIdentity(dir);
}

/** Puts a renewed certificate in the place of the present one; the key stays. */
export async function replaceCertificate(
  dir: string,
  identity: NodeIdentity,
  certificatePem: string,
): Promise<NodeIdentity> {
  const certificate = tryReadCertificate(certificatePem);
  if (!certificate || nodeIdOf(certificate) !== identity.nodeId || !isKeyOf(identity.keyPem, certificate)) {
    throw new Fault("INTEGRITY_FAILURE", "the gateway sent a certificate that is not for this node's key");
  }
  await writePrivateFile(join(identityFolder(dir), identityFiles.certificate), certificatePem);
  return {
    ...identity,
    certificatePem,
    certificateBeganAt: certificate.validFromDate.getTime(),
    certificateExpiresAt: certificate.validToDate.getTime(),
  };
}

/** Puts other authorities in the place of those that are trusted. */
export async function replaceTrust(
  dir: string,
  identity: NodeIdentity,
  trust: Pick<GatewayRecord, "pins" | "trustSerial">,
): Promise<NodeIdentity> {
  const { nodeId: id, alias, addresses } = identity;
  const record: GatewayRecord = { id, alias, addresses, ...trust };
  await writePrivateFile(join(identityFolder(dir), identityFiles.gateway), formatGatewayRecord(record));
  return { ...identity, ...trustOf(record) };
}

function trustOf({ pins, trustSerial }: GatewayRecord): Pick<NodeIdentity, "pin" | "pins" | "trustSerial"> {
  const [pin] = pins;
  if (pin === undefined) throw broken(identityFiles.gateway, "names no authority");
  return { pin, pins, trustSerial };
}

/** Erases the identity and what an unfinished join left; exported folders and their configuration are elsewhere. */
export async function eraseIdentity(dir: string): Promise<void> {
  // The old one first: left alone, it would be put back.
  for (const folder of [oldFolder(dir), identityFolder(dir), joiningFolder(dir)]) {
    if (await exists(folder)) await removePrivate(folder);
  }
}

function oldFolder(dir: string): string {
  return join(dir, "identity.old");
}

async function setOldAside(dir: string): Promise<void> {
  if (!(await exists(identityFolder(dir)))) return;
  await removePrivate(oldFolder(dir));
  await move(dir, identityFolder(dir), oldFolder(dir));
}

async function putBackOld(dir: string): Promise<void> {
  if (!(await exists(oldFolder(dir)))) return;
  if (await exists(identityFolder(dir))) await removePrivate(oldFolder(dir));
  else await move(dir, oldFolder(dir), identityFolder(dir));
}

async function move(dir: string, from: string, to: string): Promise<void> {
  try {
    await rename(from, to);
    await syncFolder(dir);
  } catch (error) {
    throw faultFromErrno(error, "identity");
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path);
    return true;
  } catch (error) {
    if (errnoOf(error) === "ENOENT") return false;
    throw faultFromErrno(error, "identity");
  }
}
