import type { Pin } from "../../shared/identity/pin.ts";
import { protocolWindow, type ProtocolWindow } from "../../shared/identity/protocol.ts";
import { systemClock, type Clock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import { silentLog, type Log } from "../../shared/log/log.ts";
import type { ServedService } from "../../shared/rpc/service.ts";
import type { Store } from "../store/store.ts";
import { openAuthorities, type Authorities } from "./authorities.ts";
import { createChallenges } from "./challenges.ts";
import { createAuthorityChange, type AuthorityChange } from "./change-authority.ts";
import type { InviteRequest } from "./codes.ts";
import { enrolmentLimits, type EnrolmentLimits, type Enrolments } from "./enrolments.ts";
import { createHeldCalls } from "./held-calls.ts";
import { identifyNode } from "./identify.ts";
import { createInvite, type Invite } from "./invite.ts";
import { createNodes } from "./nodes-repository.ts";
import type { NodeRecord, Nodes } from "./nodes.ts";
import { type CertificateLimits, defaultCertificateLimits } from "./pairing-limits.ts";
import { createPairingService } from "./pairing-service.ts";
import type { RecordChange } from "./record-change.ts";
import { createRefusedJoins } from "./refused-joins.ts";
import { keepServerCertificate, openServerCertificate, type ServerTls } from "./server-certificate.ts";
import { createEnrolments } from "./stored-enrolments.ts";
import { createWrongSecrets } from "./wrong-secrets.ts";

/** What `createPairing` takes. */
export interface PairingOptions {
  readonly store: Store;
  /** The gateway's folder. */
  readonly home: string;
  /** Where nodes reach the gateway, `HOST:PORT`, as codes carry it; asked for at each invite. */
  readonly advertised: () => readonly string[];
  /** Names and IP addresses for the server certificate, beside those of this machine itself. */
  readonly hosts?: readonly string[];
  /** Protocol versions that this gateway speaks. */
  readonly protocol?: ProtocolWindow;
  /** Ends the link of a node that left by itself. */
  readonly onLeft?: (node: NodeRecord) => Promise<void>;
  /** Gets the server certificate that takes the place of one that would soon end; show it to connections to come. */
  readonly onServerCertificate?: (tls: ServerTls) => void;
  /** Those that are not said have their defaults. */
  readonly limits?: Partial<EnrolmentLimits & CertificateLimits> & {
    readonly wrongSecretsPerMinute?: number;
  };
  readonly log?: Log;
  /** Keeps the record of what happened; nothing is recorded by default. */
  readonly record?: RecordChange;
  /** Hears that a node renewed its certificate, and until when the new one is good: its link may go on so long. */
  readonly onRenewed?: (nodeId: string, expiresAt: number) => void;
  /** Hears that nodes are to trust other authorities than before: they have to be told. */
  readonly onTrust?: () => void;
  readonly clock?: Clock;
}

/** How machines become nodes of this gateway, and who they are from then on. */
export interface GatewayPairing extends AsyncDisposable {
  /** The pin of the authority's public key. */
  readonly pin: Pin;
  /** What the TLS port shows and whom it believes. */
  readonly tls: ServerTls;
  /** The change of the authority's key. */
  readonly authority: AuthorityChange;
  readonly nodes: Nodes;
  /** Machines that wait to be admitted. */
  readonly enrolments: Enrolments;
  /** `Pairing`, for the TLS port. */
  readonly service: ServedService;
  /** Makes a join code. */
  invite(request: InviteRequest): Promise<Invite>;
  /** Who shows this certificate (DER); see `identifyNode` for the faults. */
  identify(certificate: Uint8Array | undefined): Promise<Identified>;
}

/** Who a peer is. */
export interface Identified {
  readonly nodeId: string;
  readonly alias: string;
  /** Until when its certificate is good, in milliseconds since 1970. */
  readonly expiresAt: number;
}

const thisMachine = ["localhost", "127.0.0.1", "::1"];

/**
 * Opens the gateway's side of pairing; the authority and the server certificate are made at the first start. Faults are
 * those of `openAuthority`. The caller disposes it before the store.
 */
export async function createPairing(options: PairingOptions): Promise<GatewayPairing> {
  const { store, home, clock = systemClock } = options;
  const limits = { ...enrolmentLimits, ...defaultCertificateLimits, ...options.limits };
  const authority = await openAuthorities({ store, home, clock });
  const nodes = createNodes(store, clock);
  const scope = new Scope("pairing");
  const served = await serveTls(authority, { ...options, clock });
  scope.spawn("server certificate", (signal) =>
    keepServerCertificate({ renew: served.renew, clock }, signal),
  );
  const asking = {
    store,
    clock,
    held: createHeldCalls(clock),
    refused: createRefusedJoins(clock),
    log: options.log ?? silentLog,
    record: options.record ?? (async () => undefined),
  };
  const service = createPairingService({
    ...asking,
    authority,
    nodes,
    wrongSecrets: createWrongSecrets(clock, limits.wrongSecretsPerMinute),
    protocol: options.protocol ?? protocolWindow,
    limits,
    challenges: createChallenges(clock),
    onRenewed: options.onRenewed ?? (() => undefined),
    // The node is revoked already; a link that will not end must not take the rest of pairing with it.
    onLeft: (node) => scope.spawn("leave", async () => await options.onLeft?.(node).catch(() => undefined)),
  });
  return {
    get pin() {
      return authority.signer.pin;
    },
    get tls() {
      return served.tls();
    },
    authority: createAuthorityChange({
      db: store.db,
      authorities: authority,
      onChanged: async () => {
        await served.renew();
        options.onTrust?.();
      },
    }),
    nodes,
    enrolments: createEnrolments(asking),
    service,
    invite: (request) =>
      createInvite(
        { db: store.db, pin: authority.signer.pin, addresses: options.advertised(), now: clock.now() },
        request,
      ),
    identify: async (certificate) => {
      const { node, certificate: own } = await identifyNode({ authority, nodes, clock, limits }, certificate);
      return { nodeId: node.id, alias: node.alias, expiresAt: own.validToDate.getTime() };
    },
    [Symbol.asyncDispose]: () => scope.end(),
  };
}

interface ServedTls {
  /** What is shown now. */
  readonly tls: () => ServerTls;
  /** Opens it as it has to be now, and shows it when it is another. */
  readonly renew: () => Promise<void>;
}

async function serveTls(
  authorities: Authorities,
  options: PairingOptions & { readonly clock: Clock },
): Promise<ServedTls> {
  const { home, clock } = options;
  const hosts = [...new Set([...thisMachine, ...(options.hosts ?? [])])];
  const open = (): Promise<ServerTls> =>
    openServerCertificate(authorities, { home, hosts, now: clock.now() });
  let shown = await open();
  return {
    tls: () => shown,
    renew: async () => {
      const next = await open();
      const isSame = (["certificatePem", "authorityPem", "retiredPem"] as const).every(
        (part) => next[part] === shown[part],
      );
      if (isSame) return;
      shown = next;
      options.onServerCertificate?.(next);
    },
  };
}
