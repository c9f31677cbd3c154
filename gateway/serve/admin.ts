import type { MessageInitShape } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import type {
  Admin,
  AdminGetStatusResponseSchema,
  NodeSummarySchema,
  TokenSchema,
} from "../../shared/gen/fairlead/v1/admin_pb.ts";
import { localPrincipal, nameOfRole } from "../../shared/rpc/principal.ts";
import type { ServiceImplementation } from "../../shared/rpc/service.ts";
import type { Approval, ApprovalAnswer } from "../approvals/approvals.ts";
import type { Grants } from "../approvals/grants.ts";
import type { Drains } from "../link/drains.ts";
import type { Links } from "../link/links.ts";
import type { Enrolments } from "../pairing/enrolments.ts";
import type { NodeProfile, NodeRecord, Nodes } from "../pairing/nodes.ts";
import type { TokenRecord, TokenRequest } from "../sessions/tokens.ts";
import type { Users } from "../sessions/users.ts";
import { approvalMethods } from "./approvals.ts";
import { enrolmentMethods } from "./enrolments.ts";
import { dutyMethods } from "./node-duty.ts";
import { type Published, toNodeSummary } from "./node-summary.ts";
import { toRole } from "./to-role.ts";
import { userMethods } from "./users.ts";

/** A join code that was made. */
export interface MadeInvite {
  readonly code: string;
  readonly command: string;
  readonly expiresMs: number;
  readonly uses: number;
  readonly requireApproval: boolean;
  readonly warnings: readonly string[];
}

/** What the administrators' face stands on; each is the narrowest that it needs. */
export interface AdminFaceOptions {
  readonly nodes: Nodes;
  readonly links: Pick<Links, "presence" | "end" | "facts" | "find">;
  /** Ends a node's identity and all that it has. */
  readonly revoke: (nodeId: string) => Promise<{ readonly node: NodeRecord; readonly already: boolean }>;
  readonly drains: Pick<Drains, "drain" | "undrain">;
  readonly invite: (request: {
    readonly alias?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly profile?: NodeProfile;
    readonly ttlMs?: number;
    readonly uses?: number;
    readonly requireApproval?: boolean;
    readonly note?: string;
  }) => Promise<MadeInvite>;
  readonly enrolments: Enrolments;
  /** The pins of the authorities whose certificates count. */
  readonly trustedPins: () => readonly string[];
  /** The profile by which policy goes now. */
  readonly profileOf: (node: NodeRecord) => NodeProfile;
  /** What a node publishes now. */
  readonly published: (nodeId: string) => Published;
  /** Tells the catalogues that a node's names begin with another alias now. */
  readonly renamed: (nodeId: string) => Promise<void>;
  readonly status: () => Promise<MessageInitShape<typeof AdminGetStatusResponseSchema>>;
  readonly tokens: {
    create(request: TokenRequest): Promise<{ readonly token: TokenRecord; readonly text: string }>;
    list(): Promise<readonly TokenRecord[]>;
    revoke(idOrPrefix: string): Promise<TokenRecord>;
  };
  readonly users: Users;
  readonly approvals: {
    list(options: { readonly all: boolean }): Promise<readonly Approval[]>;
    decide(idOrPrefix: string, answer: ApprovalAnswer): Promise<Approval>;
  };
  readonly grants: Pick<Grants, "list" | "revoke">;
  /** The alias of a node for people; the id when it is not known. */
  readonly aliasOf: (nodeId: string) => Promise<string>;
}

/** The service that administrators call. Whoever serves it has checked who they are. */
export function createAdminFace(options: AdminFaceOptions): ServiceImplementation<typeof Admin> {
  return {
    ...nodeMethods(options),
    ...enrolmentMethods({
      enrolments: options.enrolments,
      summary: (node) => summary(options, node),
    }),
    ...dutyMethods({ ...options, summary: (node) => summary(options, node) }),
    ...tokenMethods(options),
    ...userMethods(options),
    ...approvalMethods(options),
  };
}

function summary(options: AdminFaceOptions, node: NodeRecord): MessageInitShape<typeof NodeSummarySchema> {
  const { links, published } = options;
  const isCutOff = node.issuerPin !== "" && !options.trustedPins().includes(node.issuerPin);
  const known = { presence: links.presence(node.id), facts: links.facts(node.id), isCutOff };
  return toNodeSummary({ ...node, profile: options.profileOf(node) }, known, published(node.id));
}

function nodeMethods(options: AdminFaceOptions): ServiceImplementation<typeof Admin> {
  const { nodes } = options;
  return {
    getStatus: () => options.status(),
    createInvite: async (request) => {
      const made = await options.invite({
        ...(request.alias === "" ? {} : { alias: request.alias }),
        ...(request.profile === "" ? {} : { profile: toProfile(request.profile) }),
        ...(request.ttlMs === 0n ? {} : { ttlMs: Number(request.ttlMs) }),
        ...(request.uses === undefined ? {} : { uses: request.uses }),
        labels: request.labels,
        requireApproval: request.requireApproval,
        note: request.note,
      });
      return { ...made, expiresMs: BigInt(made.expiresMs), warnings: [...made.warnings] };
    },
    listNodes: async (request) => {
      const all = (await nodes.list()).filter((node) => hasLabels(node, request.labels));
      const shown = all
        .map((node) => summary(options, node))
        .filter(({ state }) =>
          request.state === "" ? state !== "revoked" : request.state === "all" || state === request.state,
        );
      return { nodes: shown, waiting: (await options.enrolments.list()).length };
    },
    getNode: async (request) => ({ node: summary(options, await nodes.resolve(request.node)) }),
    revokeNode: async (request) => {
      const found = await nodes.resolve(request.node);
      // The link and its calls are over before the answer: authority ends first, clean-up may follow.
      const { node, already } = await options.revoke(found.id);
      return { node: summary(options, node), already };
    },
    renameNode: async (request) => {
      const found = await nodes.resolve(request.node);
      const node = await nodes.rename(found.id, request.alias);
      await options.renamed(node.id);
      return { node: summary(options, node) };
    },
    labelNode: async (request) => {
      const found = await nodes.resolve(request.node);
      const node = await nodes.label(found.id, { set: request.set, remove: request.remove });
      return { node: summary(options, node) };
    },
    noteNode: async (request) => {
      const found = await nodes.resolve(request.node);
      return { node: summary(options, await nodes.note(found.id, request.note)) };
    },
  };
}

function tokenMethods(options: AdminFaceOptions): ServiceImplementation<typeof Admin> {
  return {
    getCaller: async (_, { principal = localPrincipal }) => ({
      user: principal.user,
      role: nameOfRole(principal.role),
      token: principal.tokenId ?? "",
      expiresMs: BigInt(principal.expiresAt ?? 0),
      version: (await options.status()).version ?? "",
    }),
    createToken: async (request, { principal = localPrincipal }) => {
      const { token, text } = await options.tokens.create({
        user: request.user === "" ? principal.user : request.user,
        ...(request.session === "" ? {} : { sessionId: request.session }),
        ...(request.agent === "" ? {} : { agent: request.agent }),
        ...(request.role === "" ? {} : { role: toRole(request.role) }),
        ...(request.ttlMs === 0n ? {} : { ttlMs: Number(request.ttlMs) }),
      });
      return { token: toToken(token), text };
    },
    listTokens: async () => ({ tokens: (await options.tokens.list()).map(toToken) }),
    revokeToken: async (request) => ({ token: toToken(await options.tokens.revoke(request.id)) }),
  };
}

function toToken(token: TokenRecord): MessageInitShape<typeof TokenSchema> {
  return {
    id: token.id,
    session: token.sessionId ?? "",
    agent: token.agent ?? "",
    createdMs: BigInt(token.createdAt),
    expiresMs: BigInt(token.expiresAt),
    role: token.role === undefined ? "" : nameOfRole(token.role),
    user: token.user,
    usedMs: BigInt(token.usedAt ?? 0),
  };
}

function toProfile(text: string): NodeProfile {
  if (text === "read" || text === "work" || text === "full") return text;
  throw new Fault("NOT_FOUND", `there is no profile ${text}`, {
    hint: "use read, work or full",
    details: { field: "profile", actual: text },
  });
}

function hasLabels(node: NodeRecord, wanted: Readonly<Record<string, string>>): boolean {
  return Object.entries(wanted).every(([key, value]) => node.labels[key] === value);
}
