import { join } from "node:path";
import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import {
  makePrivateFolder,
  publishFolder,
  readPrivateFile,
  removePrivate,
  writePrivateFile,
} from "../../shared/identity/private-files.ts";
import { signTrust, type TrustStatement } from "../../shared/identity/trust-statement.ts";
import { deleteSetting, getSetting, putSetting } from "../store/settings.ts";
import {
  lostAuthority,
  openAuthority,
  putAuthority,
  readAuthority,
  toAuthority,
  type Authority,
  type AuthorityOptions,
} from "./authority.ts";
import { createAuthority, issueCrossCertificate } from "./issue.ts";

/**
 * The authority and, while its key is being changed, the next one beside it:
 *
 *     single ── announce ──▶ announced ── switch ──▶ switched ── retire ──▶ single
 *       ▲                     │     ▲                   │
 *       └────── abort ────────┘     └────── abort ──────┘
 *
 * From the announcement on, what either has signed counts. The next key lies in `authority/next`, with a certificate of it
 * that the current one signed, so that a node that slept through the announcement still knows its gateway. Each step is
 * one row of the store; retiring is finished by the next start when it was cut off.
 */
export type ChangePhase = "single" | "announced" | "switched";

/** A statement of trust with the signature of each authority that counts: its certificate, PEM, and base64. */
export interface SignedTrust extends TrustStatement {
  readonly signatures: readonly { readonly authority: string; readonly signature: string }[];
}

/** Who signs for a gateway, and whose signatures count, at every moment. */
export interface Authorities {
  readonly phase: ChangePhase;
  /** Since when it is in that phase, in milliseconds since 1970; 0 for `single`. */
  readonly sinceMs: number;
  /** The one that was there first. */
  readonly current: Authority;
  readonly next: Authority | undefined;
  /** Signs what is issued now. */
  readonly signer: Authority;
  /** Every one whose certificates count. */
  readonly trusted: readonly Authority[];
  /** Certificates of those that went, PEM, newest last: what they signed counts no more, and is still known as ours. */
  readonly retired: readonly string[];
  /** What follows the server's own certificate in the handshake, PEM. */
  readonly chainPem: string;
  /** What nodes are told to trust. */
  readonly statement: SignedTrust;
  /** Makes the next key. Each step is `CONFLICT` in another phase than its own. */
  announce(): Promise<void>;
  /** The next key signs from now on. */
  switchOver(): Promise<void>;
  /** The old key goes. */
  retire(): Promise<void>;
  /** One step back. */
  abort(): Promise<void>;
}

interface Change {
  readonly phase: "announced" | "switched" | "retiring";
  readonly pin: string;
  readonly sinceMs: number;
}

interface Next {
  readonly authority: Authority;
  /** The next key, signed by the current one. */
  readonly crossPem: string;
}

const changeKey = "authority.change";
const trustKey = "authority.trust";
const retiredKey = "authority.retired";

/** Most that are remembered: a change of the key is a matter of months. */
const maxRetired = 32;

/** Opens them, and finishes what a crash cut off. Faults are those of `openAuthority`, for the next one as well. */
export async function openAuthorities(options: AuthorityOptions): Promise<Authorities> {
  const change = toChange(await getSetting(options.store.db, changeKey));
  const folder = join(options.home, "authority", "next");
  const next = await readNext(folder, change);
  if (change?.phase === "retiring" && next) await finishRetiring(options, next.authority);
  const current = await openAuthority(options);
  const stays = change !== undefined && change.phase !== "retiring";
  if (!stays) await removePrivate(folder);
  const opened = new OpenAuthorities(options, {
    current,
    next: stays ? next : undefined,
    phase: stays ? toPhase(change.phase) : "single",
    sinceMs: stays ? change.sinceMs : 0,
  });
  await opened.loadStatement();
  await opened.loadRetired();
  return opened;
}

function toPhase(phase: Change["phase"]): ChangePhase {
  return phase === "retiring" ? "single" : phase;
}

interface State {
  readonly current: Authority;
  readonly next: Next | undefined;
  readonly phase: ChangePhase;
  readonly sinceMs: number;
}

class OpenAuthorities implements Authorities {
  readonly #options: AuthorityOptions;
  #state: State;
  #statement: SignedTrust;
  #retired: readonly string[] = [];

  constructor(options: AuthorityOptions, state: State) {
    this.#options = options;
    this.#state = state;
    this.#statement = { serial: 0, pins: [], signatures: [] };
  }

  get phase(): ChangePhase {
    return this.#state.phase;
  }

  get sinceMs(): number {
    return this.#state.sinceMs;
  }

  get current(): Authority {
    return this.#state.current;
  }

  get next(): Authority | undefined {
    return this.#state.next?.authority;
  }

  get signer(): Authority {
    return this.phase === "switched" ? (this.next ?? this.current) : this.current;
  }

  get trusted(): readonly Authority[] {
    return this.next ? [this.current, this.next] : [this.current];
  }

  get retired(): readonly string[] {
    return this.#retired;
  }

  get chainPem(): string {
    const { current, next, phase } = this.#state;
    return phase === "switched" && next ? next.crossPem + current.certificatePem : current.certificatePem;
  }

  get statement(): SignedTrust {
    return this.#statement;
  }

  /** The kept statement, or a first one. A statement that does not say what is so now was cut off: it is made anew. */
  async loadStatement(): Promise<void> {
    const kept = readStatement(await getSetting(this.#options.store.db, trustKey));
    const pins = this.trusted.map(({ pin }) => pin);
    if (kept && kept.pins.join() === pins.join()) this.#statement = kept;
    else await this.#take({ ...this.#state }, kept?.serial ?? 0);
  }

  async loadRetired(): Promise<void> {
    const kept = await getSetting(this.#options.store.db, retiredKey);
    this.#retired = Array.isArray(kept) ? kept.filter((pem) => typeof pem === "string") : [];
  }

  async announce(): Promise<void> {
    this.#require("single", "announce");
    const { home, clock } = this.#options;
    const made = await createAuthority(clock.now());
    const authority = toAuthority(made);
    const crossPem = await issueCrossCertificate(this.current, authority, clock.now());
    const folder = join(home, "authority", "next");
    await removePrivate(`${folder}.new`);
    await makePrivateFolder(`${folder}.new`);
    await writePrivateFile(join(`${folder}.new`, "key.pem"), made.keyPem);
    await writePrivateFile(join(`${folder}.new`, "cert.pem"), made.certificatePem);
    await writePrivateFile(join(`${folder}.new`, "cross.pem"), crossPem);
    await removePrivate(folder);
    await publishFolder(`${folder}.new`, folder);
    await this.#become("announced", { authority, crossPem });
  }

  async switchOver(): Promise<void> {
    this.#require("announced", "switch");
    await this.#become("switched", this.#state.next);
  }

  async retire(): Promise<void> {
    this.#require("switched", "retire");
    const next = this.#state.next?.authority;
    if (!next) throw lostAuthority("authority/next/key.pem", "is missing");
    await this.#keepRetired(this.current);
    await this.#remember({ phase: "retiring", pin: next.pin, sinceMs: this.#options.clock.now() });
    await finishRetiring(this.#options, next);
    await removePrivate(join(this.#options.home, "authority", "next"));
    await this.#take({ current: next, next: undefined, phase: "single", sinceMs: 0 });
  }

  async abort(): Promise<void> {
    if (this.phase === "switched") return await this.#become("announced", this.#state.next);
    this.#require("announced", "abort");
    // It may have signed before, when it was switched to and back.
    if (this.next) await this.#keepRetired(this.next);
    await deleteSetting(this.#options.store.db, changeKey);
    await removePrivate(join(this.#options.home, "authority", "next"));
    await this.#take({ ...this.#state, next: undefined, phase: "single", sinceMs: 0 });
  }

  /** Before it goes: a machine that only it vouches for is told so, and how it comes back. */
  async #keepRetired({ certificatePem }: Authority): Promise<void> {
    const { store, clock } = this.#options;
    const others = this.#retired.filter((pem) => pem !== certificatePem);
    this.#retired = [...others, certificatePem].slice(-maxRetired);
    await putSetting(store.db, retiredKey, { value: [...this.#retired], now: clock.now() });
  }

  async #become(phase: "announced" | "switched", next: Next | undefined): Promise<void> {
    if (!next) throw lostAuthority("authority/next/key.pem", "is missing");
    const sinceMs = this.#options.clock.now();
    await this.#remember({ phase, pin: next.authority.pin, sinceMs });
    await this.#take({ ...this.#state, next, phase, sinceMs });
  }

  async #remember(change: Change): Promise<void> {
    await putSetting(this.#options.store.db, changeKey, { value: { ...change }, now: change.sinceMs });
  }

  /** Takes the state, with a statement of it that all who count have signed. */
  async #take(state: State, lastSerial = this.#statement.serial): Promise<void> {
    this.#state = state;
    const { store, clock } = this.#options;
    const now = clock.now();
    // Above those of an earlier store that a backup has put back.
    const statement = {
      serial: Math.max(lastSerial + 1, Math.floor(now)),
      pins: this.trusted.map(({ pin }) => pin),
    };
    const signatures = this.trusted.map(({ keyPem, certificatePem }) => ({
      authority: certificatePem,
      signature: Buffer.from(signTrust(statement, keyPem)).toString("base64"),
    }));
    this.#statement = { ...statement, signatures };
    await putSetting(store.db, trustKey, { value: formatStatement(this.#statement), now });
  }

  #require(phase: ChangePhase, step: string): void {
    if (this.phase === phase) return;
    const { is, next } = standings[this.phase];
    throw new Fault("CONFLICT", `${is}: there is nothing to ${step}`, {
      details: { expected: phase, actual: this.phase },
      hint: `fairlead gateway authority ${step === "abort" ? "show" : next}`,
    });
  }
}

/** Where a change stands, and the step that comes then. */
const standings: Readonly<Record<ChangePhase, { readonly is: string; readonly next: string }>> = {
  single: { is: "no change of the authority's key is under way", next: "announce" },
  announced: { is: "the next key is announced and does not sign yet", next: "switch" },
  switched: { is: "the next key signs already", next: "retire" },
};

async function finishRetiring(options: AuthorityOptions, next: Authority): Promise<void> {
  await putAuthority(options, next);
  await deleteSetting(options.store.db, changeKey);
}

async function readNext(folder: string, change: Change | undefined): Promise<Next | undefined> {
  // Without a row nobody has heard of it: it was cut off while it was made, or while it went.
  if (!change) return undefined;
  const authority = await readAuthority(folder, "authority/next");
  const cross = await readPrivateFile(join(folder, "cross.pem"));
  if (!authority || !cross) throw lostAuthority("authority/next/key.pem", "is missing");
  if (authority.pin !== change.pin)
    throw lostAuthority("authority/next/cert.pem", "is of another authority than that of state.db");
  return { authority, crossPem: cross.text };
}

function toChange(value: unknown): Change | undefined {
  if (value === undefined) return undefined;
  if (typeof value === "object" && value !== null && "phase" in value && "pin" in value) {
    const { phase, pin } = value;
    const sinceMs = "sinceMs" in value ? Number(value.sinceMs) : 0;
    const isPhase = phase === "announced" || phase === "switched" || phase === "retiring";
    if (isPhase && typeof pin === "string") return { phase, pin, sinceMs };
  }
  throw lostAuthority("state.db", "holds a change of the authority in a form that is not known");
}

function formatStatement({ serial, pins, signatures }: SignedTrust): JsonValue {
  return {
    serial,
    pins: [...pins],
    signatures: signatures.map(({ authority, signature }) => ({ authority, signature })),
  };
}

function readStatement(value: unknown): SignedTrust | undefined {
  // Written by this program only; nodes judge the signatures.
  return value === undefined ? undefined : (value as SignedTrust);
}
