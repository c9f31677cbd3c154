import { createPrivateKey, createPublicKey, X509Certificate } from "node:crypto";
import { join } from "node:path";
import { Fault } from "../../shared/fault/fault.ts";
import { tryReadCertificate } from "../../shared/identity/node-name.ts";
import { pinOfCertificate, type Pin } from "../../shared/identity/pin.ts";
import {
  makePrivateFolder,
  type PrivateFile,
  publishFolder,
  readPrivateFile,
  removePrivate,
  writePrivateFile,
} from "../../shared/identity/private-files.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { getSetting, putSetting } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import { createAuthority, type KeyAndCertificate } from "./issue.ts";

/**
 * The gateway's own certificate authority. It lives in a folder of its own, and the store remembers its pin: the folder
 * without the pin means that the store was lost, the pin without the folder that the key was; neither is ever mended by
 * making a new one, because every paired node would have to be paired again.
 *
 *     (nothing) → store: making PIN → folder written as a whole → store: made PIN
 */
export interface Authority extends KeyAndCertificate {
  /** The pin of its public key. */
  readonly pin: Pin;
  readonly certificate: X509Certificate;
}

/** What `openAuthority` takes. */
export interface AuthorityOptions {
  readonly store: Store;
  /** The gateway's folder. */
  readonly home: string;
  readonly clock: Clock;
}

const settingKey = "authority";

interface Remembered {
  readonly pin: string;
  readonly state: "making" | "made";
}

/**
 * The authority of a home, made at the first start. `INTEGRITY_FAILURE` when its files and the store do not agree;
 * `details.path` names the file.
 */
export async function openAuthority(options: AuthorityOptions): Promise<Authority> {
  const { store, home } = options;
  const folder = join(home, "authority");
  const known = toRemembered(await getSetting(store.db, settingKey));
  const found = await readAuthority(folder);
  if (found && !known) {
    throw lostAuthority("state.db", "holds no authority, and the folder authority does");
  }
  if (found && known && found.pin !== known.pin) {
    throw lostAuthority("authority/cert.pem", "is of another authority than that of state.db");
  }
  if (!found && known?.state === "made") throw lostAuthority("authority/key.pem", "is missing");
  const authority = found ?? (await makeAuthority(folder, options));
  if (known?.state !== "made") await remember(options, { pin: authority.pin, state: "made" });
  return authority;
}

async function makeAuthority(folder: string, options: AuthorityOptions): Promise<Authority> {
  const made = await createAuthority(options.clock.now());
  const authority = toAuthority(made);
  await remember(options, { pin: authority.pin, state: "making" });
  const stage = `${folder}.new`;
  await removePrivate(stage);
  await makePrivateFolder(stage);
  await writePrivateFile(join(stage, "key.pem"), made.keyPem);
  await writePrivateFile(join(stage, "cert.pem"), made.certificatePem);
  await publishFolder(stage, folder);
  return authority;
}

function toRemembered(value: unknown): Remembered | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "object" && value !== null && "pin" in value && "state" in value) {
    const { pin, state } = value;
    if (typeof pin === "string" && (state === "making" || state === "made")) return { pin, state };
  }
  throw lostAuthority("state.db", "holds an authority in a form that is not known");
}

function remember(options: AuthorityOptions, value: Pick<Remembered, "pin" | "state">): Promise<void> {
  return putSetting(options.store.db, settingKey, { value: { ...value }, now: options.clock.now() });
}

/** The authority of a folder that others know as `name`, or undefined when it is empty. Faults are those of `openAuthority`. */
export async function readAuthority(folder: string, name = "authority"): Promise<Authority | undefined> {
  const key = await readPrivateFile(join(folder, "key.pem"));
  const certificate = await readPrivateFile(join(folder, "cert.pem"));
  if (!key && !certificate) return undefined;
  if (!key) throw lostAuthority(`${name}/key.pem`, "is missing");
  if (!certificate) throw lostAuthority(`${name}/cert.pem`, "is missing");
  assertPrivate(key, { path: `${name}/key.pem`, file: join(folder, "key.pem") });
  const parsed = tryReadCertificate(certificate.text);
  if (!parsed?.ca) throw lostAuthority(`${name}/cert.pem`, "is no certificate of an authority");
  if (!holdsKeyOf(key.text, parsed))
    throw lostAuthority(`${name}/key.pem`, `is not the key of ${name}/cert.pem`);
  return toAuthority({ keyPem: key.text, certificatePem: certificate.text });
}

/** Whoever can read the key can let machines in; that it was open to others must not go unnoticed. */
function assertPrivate(
  { mode }: PrivateFile,
  { path, file }: { readonly path: string; readonly file: string },
): void {
  if (process.platform === "win32" || (mode & 0o077) === 0) return;
  throw new Fault(
    "POLICY_DENIED",
    `${path} has mode ${mode.toString(8).padStart(4, "0")}: others than its owner may read it`,
    {
      details: { side: "gateway", rule: "authority_private", path },
      hint: `chmod 600 ${file}; if somebody may have read it: fairlead gateway authority announce`,
    },
  );
}

function holdsKeyOf(keyPem: string, certificate: X509Certificate): boolean {
  try {
    return createPublicKey(createPrivateKey(keyPem)).equals(certificate.publicKey);
  } catch {
    return false;
  }
}

/** Puts another authority in the place of the present one: its files, then the row of the store. Done twice it is done. */
export async function putAuthority(options: AuthorityOptions, authority: Authority): Promise<void> {
  const folder = join(options.home, "authority");
  await writePrivateFile(join(folder, "key.pem"), authority.keyPem);
  await writePrivateFile(join(folder, "cert.pem"), authority.certificatePem);
  await remember(options, { pin: authority.pin, state: "made" });
}

/** An authority that was made, with its pin. */
export function toAuthority(made: KeyAndCertificate): Authority {
  const certificate = new X509Certificate(made.certificatePem);
  return { ...made, certificate, pin: pinOfCertificate(certificate) };
}

/** The fault of an authority's file. */
export function lostAuthority(path: string, how: string): Fault {
  return new Fault("INTEGRITY_FAILURE", `${path} ${how}`, {
    retryable: false,
    details: { path },
    hint: "restore a backup with fairlead gateway restore FILE; nothing was changed",
  });
}
