import path from "node:path";
import { faultFromError } from "../shared/fault/fault-from-error.ts";
import type { Files } from "../shared/gen/fairlead/v1/files_pb.ts";
import { parseAddress } from "../shared/identity/address.ts";
import type { Clock } from "../shared/lifetime/clock.ts";
import type { Scope } from "../shared/lifetime/scope.ts";
import type { Log } from "../shared/log/log.ts";
import type { Environment } from "../shared/process/environment.ts";
import type { ServiceImplementation } from "../shared/rpc/service.ts";
import { type Approvals, createApprovals } from "./approvals/approvals.ts";
import { type Audit, openAudit } from "./audit/audit.ts";
import type { GatewaySettings } from "./config/gateway-settings.ts";
import { openBootstrap } from "./files/bootstrap-documents.ts";
import type { ContentStore } from "./files/content-store.ts";
import type { WorkspaceRegistry } from "./files/registry.ts";
import { type CleanUp, createRevocation, type Revocation } from "./fleet/revocation.ts";
import { followIdentities } from "./follow-identities.ts";
import { joinFiles, joinGrants, joinRegistry } from "./join-files.ts";
import { policyParts, startPolicy } from "./join-policy.ts";
import { type JoinedSkills, joinSkills } from "./join-skills.ts";
import { admissionOf } from "./link/admission.ts";
import { type Drains, openDrains } from "./link/drains.ts";
import { keepPresences, recallPresences } from "./link/kept-presences.ts";
import type { LinkHost } from "./link/links-options.ts";
import type { Presence, PublicationReader } from "./link/links.ts";
import { nextOwnerEpoch } from "./link/owner-epoch.ts";
import { startLinks } from "./link/start-links.ts";
import { openEmbeddingProvider, type OpenProviderDeps } from "./memory/embedding/open-provider.ts";
import { listMemoryWorkspaces } from "./memory/list-workspaces.ts";
import { startMemory } from "./memory/memory.ts";
import { revokedFault } from "./pairing/nodes-repository.ts";
import { createPairing, type GatewayPairing, type PairingOptions } from "./pairing/pairing.ts";
import type { LivePolicy } from "./policy/live-policy.ts";
import { publishedBy } from "./published-by.ts";
import { recordLate } from "./record-late.ts";
import type { AdminFaceOptions } from "./serve/admin.ts";
import type { PolicyFaceOptions } from "./serve/policy.ts";
import type { SessionsServiceOptions } from "./serve/sessions.ts";
import { createMemoryTools } from "./sessions/memory-tools.ts";
import { createSessionInstalls } from "./sessions/session-installs.ts";
import { createSessionMemory, type SessionMemory } from "./sessions/session-memory.ts";
import { createSessionSkills } from "./sessions/session-skills.ts";
import { createSessions } from "./sessions/sessions.ts";
import { createTokens, type Tokens } from "./sessions/tokens.ts";
import { createUsers } from "./sessions/users.ts";
import type { SkillCatalogue } from "./skills/catalogue.ts";
import { nextGeneration } from "./store/generations.ts";
import { openStore, type Store } from "./store/store.ts";
import { createToolCatalogue, type ToolCatalogue } from "./tools/catalogue.ts";
import type { FileGate } from "./tools/file-gate.ts";
import { createTools } from "./tools/tools.ts";

/** What the features take besides settings. */
export interface FeatureDeps extends OpenProviderDeps {
  readonly log: Log;
  readonly version: string;
  /** This program's own, for the gates of the gateway's own skills. */
  readonly environment: Environment;
  /** The command that runs the gateway, for the message of others that want its folder. */
  readonly program?: string;
  /** What join codes carry; asked for at each invite. */
  readonly advertised: () => readonly string[];
  /** Hears of a new server certificate, for connections made from then on. */
  readonly onServerCertificate: (tls: GatewayPairing["tls"]) => void;
  /** What follows the revocation of a node. */
  readonly cleanUps?: readonly CleanUp[];
}

/** Everything that a gateway does, without the faces that offer it. */
export interface Features {
  readonly pairing: GatewayPairing;
  readonly links: LinkHost;
  readonly files: ServiceImplementation<typeof Files>;
  readonly store: Store;
  readonly audit: Audit;
  readonly faceParts: SessionsServiceOptions & { readonly tokens: Tokens };
  readonly adminParts: Omit<AdminFaceOptions, "status">;
  readonly policyParts: Omit<PolicyFaceOptions, "audit">;
  readonly counts: () => Promise<{
    readonly nodes: number;
    readonly nodesOnline: number;
    readonly sessions: number;
  }>;
}

interface Base {
  readonly store: Store;
  readonly audit: Audit;
  readonly pairing: GatewayPairing;
  readonly policy: LivePolicy;
  readonly links: LinkHost;
  readonly revocation: Revocation;
  readonly drains: Drains;
  readonly aliases: Map<string, string>;
  readonly registry: WorkspaceRegistry;
  readonly tools: ToolCatalogue;
  readonly skills: SkillCatalogue;
  readonly content: ContentStore;
  readonly skillReading: JoinedSkills["skillReading"];
}

/** Opens and joins the features, lowest first; `scope` ends them in reverse order. */
export async function startFeatures(
  scope: Scope,
  settings: GatewaySettings,
  deps: FeatureDeps,
): Promise<Features> {
  const base = await startBase(scope, settings, deps);
  const { store, pairing, links } = base;
  const { clock } = deps;
  const { nodes } = pairing;
  const memory = await joinMemory(scope, base, { settings, deps });
  const approvals = createApprovals({ store, clock, waitMs: settings.limits.approvalWaitMs });
  const { grants, onPolicyChange } = await joinGrants({ ...base, clock });
  const bootstrap = openBootstrap(settings.bootstrap.patterns, deps.log);
  const files = await joinFiles({ ...base, nodes, approvals, grants, onPolicyChange, clock, bootstrap });
  const faceParts = joinSessions(base, {
    settings,
    clock,
    memory,
    approvals,
    fileGate: files.gate,
  });
  return {
    pairing,
    links,
    files: files.service,
    store,
    audit: base.audit,
    faceParts,
    adminParts: adminParts(base, {
      tokens: faceParts.tokens,
      users: createUsers({ store, tokens: faceParts.tokens, clock }),
      approvals,
      grants,
    }),
    policyParts: policyParts({ ...base, settings, nodes, grants }),
    counts: async () => {
      const known = (await nodes.list()).filter(({ revokedAt }) => revokedAt === undefined);
      const online = known.filter(({ id }) => links.links.presence(id).state === "online");
      const open = await faceParts.sessions.list();
      return { nodes: known.length, nodesOnline: online.length, sessions: open.length };
    },
  };
}

async function joinMemory(
  scope: Scope,
  { registry, aliases, links, pairing, policy }: Base,
  { settings, deps }: { readonly settings: GatewaySettings; readonly deps: FeatureDeps },
): Promise<SessionMemory> {
  const workspaces = listMemoryWorkspaces({ registry, aliasOf: (nodeId) => aliases.get(nodeId) });
  const memory = scope.use(
    await startMemory({
      links: links.links,
      indexDir: path.join(settings.dir, "index"),
      workspaces,
      settings: settings.memory,
      provider: await openEmbeddingProvider(settings.embeddings, deps),
      clock: deps.clock,
      log: deps.log.child({ room: "memory" }),
    }),
  );
  return createSessionMemory({ memory, workspaces, nodes: pairing.nodes, policy, registry });
}

interface SessionParts {
  readonly settings: GatewaySettings;
  readonly clock: Clock;
  readonly memory: SessionMemory;
  readonly approvals: Approvals;
  readonly fileGate: FileGate;
}

function joinSessions(base: Base, parts: SessionParts): Features["faceParts"] {
  const { store, pairing, policy, registry } = base;
  const { clock, memory, approvals, fileGate } = parts;
  const { nodes } = pairing;
  const { links } = base.links;
  const { content, skillReading } = base;
  const skills = createSessionSkills({
    catalogue: base.skills,
    content,
    links,
    nodes,
    policy,
    registry,
    ...skillReading,
  });
  const tools = createTools({
    catalogue: base.tools,
    links,
    nodes,
    workspaces: registry,
    policy,
    approvals,
    fileGate,
    host: createMemoryTools(memory),
    skillNames: (caller) => skills.names(caller),
    clock,
  });
  const sessions = createSessions({
    store,
    nodes,
    links,
    workspaces: registry,
    policy,
    agents: Object.keys(parts.settings.agents),
    clock,
  });
  const installs = createSessionInstalls({ skills, nodes, policy, approvals, links, audit: base.audit });
  return { sessions, tools, skills, memory, installs, tokens: createTokens({ store, clock }) };
}

async function startBase(scope: Scope, settings: GatewaySettings, deps: FeatureDeps): Promise<Base> {
  const { clock, log, program } = deps;
  const policy = scope.use(await startPolicy(settings, deps));
  const store = scope.use(
    await openStore({ dir: settings.dir, clock, ...(program === undefined ? {} : { program }) }),
  );
  const audit = scope.use(await startAudit(store, settings, deps));
  const late: Late = {};
  const pairing = scope.use(
    await createPairing({
      store,
      home: settings.dir,
      advertised: deps.advertised,
      onServerCertificate: deps.onServerCertificate,
      hosts: settings.advertise.map((address) => parseAddress(address, "advertise").host),
      clock,
      limits: settings.limits,
      log: log.child({ room: "pairing" }),
      record: (db, entry) => audit.record(db, entry),
      ...tellLinks(late),
    }),
  );
  const known = await pairing.nodes.list();
  const aliases = new Map(known.map((node) => [node.id, node.alias]));
  const { skills, content, skillReading } = await joinSkills(scope, {
    settings,
    deps,
    store,
    aliases,
    known,
  });
  const tools = createToolCatalogue();
  const links = scope.use(
    joinLinks({
      ownerEpoch: await nextOwnerEpoch(store, clock),
      recalled: await recallPresences(store),
      settings,
      deps,
      store,
      audit,
      pairing,
      aliases,
      readers: [skills.reader, tools.reader],
    }),
  );
  late.links = links;
  const revocation = (late.revocation = joinRevocation({ pairing, links, content, deps }));
  const drains = scope.use(await openDrains({ store, links, clock, onFault: drainFaults(log) }));
  scope.spawn("presences", (signal) => keepPresences({ store, links: links.links, clock, signal }));
  const registry = await joinRegistry(scope, { store, links, clock });
  // Revoked is for good, also for a gateway that has just started: nobody is to wait for such a node.
  for (const node of known)
    if (node.revokedAt !== undefined) await links.links.end(node.id, revokedFault(node));
  const opened = { store, audit, pairing, policy, links };
  return { ...opened, revocation, drains, aliases, registry, tools, skills, content, skillReading };
}

/** Opens the record, and begins it with the start of this process. */
async function startAudit(store: Store, settings: GatewaySettings, deps: FeatureDeps): Promise<Audit> {
  const { clock, version } = deps;
  const log = deps.log.child({ room: "audit" });
  const audit = await openAudit({
    store,
    dir: path.join(settings.dir, "audit"),
    segmentBytes: settings.limits.auditFileBytes,
    keepMs: settings.limits.auditKeepMs,
    clock,
    onFault: (error) => {
      const { code, message } = faultFromError(error);
      log.error("records wait in state.db", { code, reason: message });
    },
  });
  await audit.append({
    actor: "gateway",
    action: "gateway.start",
    target: "gateway",
    outcome: "ok",
    after: { version },
  });
  return audit;
}

/** What is there only after pairing. */
interface Late {
  links?: LinkHost;
  revocation?: Revocation;
}

/** What pairing tells the links, once there are any. */
function tellLinks(late: Readonly<Late>): Pick<PairingOptions, "onTrust" | "onRenewed" | "onLeft"> {
  return {
    onTrust: () => late.links?.tellTrust(),
    onRenewed: (nodeId, expiresAt) => late.links?.renewed(nodeId, expiresAt),
    onLeft: async (node) => await late.revocation?.end(node),
  };
}

interface LinkJoin extends Pick<Base, "store" | "audit" | "pairing" | "aliases"> {
  readonly settings: GatewaySettings;
  readonly deps: FeatureDeps;
  readonly readers: readonly PublicationReader[];
  readonly recalled: ReadonlyMap<string, Presence>;
  readonly ownerEpoch: bigint;
}

function joinLinks(join: LinkJoin): LinkHost {
  const { settings, deps, store, audit, pairing, aliases, readers, recalled, ownerEpoch } = join;
  const log = deps.log.child({ room: "link" });
  const onFault = (error: unknown, about = "record"): void => log.warn(about, toLogged(error));
  return startLinks({
    clock: deps.clock,
    identify: async (certificate) => {
      const who = await pairing.identify(certificate);
      aliases.set(who.nodeId, who.alias);
      return who;
    },
    readers,
    recalled,
    ownerEpoch,
    nextGeneration: (nodeId, presented) => nextGeneration(store, nodeId, presented),
    ...followIdentities({ store, audit, authority: pairing.authority, onFault }),
    onLate: recordLate(audit, onFault),
    heartbeat: settings.limits,
    budgets: {
      linkBytes: settings.limits.linkBytesInFlight,
      gatewayBytes: settings.limits.gatewayBytesInFlight,
    },
    admission: admissionOf(settings.limits.admissionPerSecond),
    gatewayVersion: deps.version,
    onFault,
  });
}

function joinRevocation({
  pairing,
  links,
  content,
  deps,
}: Pick<LinkJoin, "pairing" | "deps"> & Pick<Base, "links" | "content">): Revocation {
  return createRevocation({
    nodes: pairing.nodes,
    links: links.links,
    cleanUps: [({ id }) => content.forget(id), ...(deps.cleanUps ?? [])],
    clock: deps.clock,
    onFault: (error, about) => deps.log.warn(about, toLogged(error)),
  });
}

function drainFaults(log: Log): (error: unknown) => void {
  return (error) => log.error("a drain was not ended", toLogged(error));
}

function toLogged(error: unknown): { readonly code: string; readonly reason: string } {
  const { code, message } = faultFromError(error);
  return { code, reason: message };
}

function adminParts(
  base: Base,
  rooms: Pick<AdminFaceOptions, "tokens" | "users" | "approvals" | "grants">,
): Omit<AdminFaceOptions, "status"> {
  const { pairing, links, aliases } = base;
  return {
    ...rooms,
    nodes: pairing.nodes,
    links: links.links,
    drains: base.drains,
    revoke: (nodeId) => base.revocation.revoke(nodeId),
    invite: (request) => pairing.invite(request),
    enrolments: pairing.enrolments,
    trustedPins: () => pairing.authority.authorities.trusted.map(({ pin }) => pin),
    profileOf: (node) => base.policy.profileOf(node),
    published: (nodeId) => publishedBy(nodeId, base),
    renamed: async (nodeId) => {
      const node = await pairing.nodes.find(nodeId);
      if (node) aliases.set(nodeId, node.alias);
      await base.skills.renamed(nodeId);
      base.tools.renamed(nodeId);
    },
    aliasOf: async (nodeId) => aliases.get(nodeId) ?? nodeId,
  };
}
