import { digestOf } from "../shared/content/digest.ts";
import type { Files } from "../shared/gen/fairlead/v1/files_pb.ts";
import type { Clock } from "../shared/lifetime/clock.ts";
import type { Scope } from "../shared/lifetime/scope.ts";
import type { ServiceImplementation } from "../shared/rpc/service.ts";
import type { Approvals } from "./approvals/approvals.ts";
import { type Grant, type Grants, openGrants } from "./approvals/grants.ts";
import type { AuditEntry } from "./audit/audit-record.ts";
import type { Audit } from "./audit/audit.ts";
import type { BootstrapDocuments } from "./files/bootstrap-documents.ts";
import { createFilesFace } from "./files/face.ts";
import type { FileActor, FileGrant, FilePeople, FileQuestion, FileVerdict } from "./files/file-question.ts";
import { openFileRecorder } from "./files/file-record.ts";
import { ignoresCaseOn } from "./files/ignores-case.ts";
import { keepWorkspaces, recallWorkspaces } from "./files/kept-workspaces.ts";
import { createWorkspaceRegistry, type WorkspaceRegistry } from "./files/registry.ts";
import { createStoredReads } from "./files/stored-reads.ts";
import type { LinkHost } from "./link/links-options.ts";
import type { Nodes } from "./pairing/nodes.ts";
import type { LivePolicy } from "./policy/live-policy.ts";
import type { Store } from "./store/store.ts";
import { operatorAgent } from "./tools/caller.ts";
import { createFileGate } from "./tools/create-file-gate.ts";
import type { FileGate } from "./tools/file-gate.ts";

/** What the files of a gateway stand on. */
export interface FilesJoin {
  readonly store: Store;
  readonly audit: Audit;
  readonly nodes: Pick<Nodes, "resolve" | "find">;
  readonly policy: Pick<LivePolicy, "decideFile">;
  readonly registry: WorkspaceRegistry;
  readonly approvals: Approvals;
  readonly grants: Grants;
  readonly clock: Clock;
  /** What the bootstrap view opens. */
  readonly bootstrap?: BootstrapDocuments;
  /** Calls its listener after each change of policy or grants, until it is disposed. */
  readonly onPolicyChange: (listener: () => void) => Disposable;
}

/** The workspaces that nodes offer, with those that were known before this process began; kept until the scope ends. */
export async function joinRegistry(
  scope: Scope,
  { store, links, clock }: Pick<FilesJoin, "store" | "clock"> & { readonly links: LinkHost },
): Promise<WorkspaceRegistry> {
  const registry = createWorkspaceRegistry({ links: links.links, clock });
  await recallWorkspaces({ store, registry });
  links.addReader(registry.reader);
  scope.spawn("kept workspaces", (signal) => keepWorkspaces({ store, registry, clock, signal }));
  return registry;
}

/** The local socket takes its owner only, who acts as the operator. */
const operator: FileActor = { agent: operatorAgent, sessionId: undefined, tool: undefined };

/** The files of every node, behind policy, grants, people and the record: as a service, and for tools that act on them. */
export async function joinFiles(join: FilesJoin): Promise<{
  readonly service: ServiceImplementation<typeof Files>;
  readonly gate: FileGate;
}> {
  const { store, audit, clock } = join;
  const shared = {
    registry: join.registry,
    nodes: join.nodes,
    clock,
    recorder: await openFileRecorder({ store, audit, clock }),
    onPolicyChange: join.onPolicyChange,
  };
  const service = createFilesFace({
    ...shared,
    ...(join.bootstrap ? { bootstrap: join.bootstrap } : {}),
    decide: (question) => decideFile(join, question, operator),
    reads: createStoredReads({ store, clock, userOf: () => operatorAgent }),
    actorOf: () => operator,
    people: joinPeople(join),
  });
  const gate = createFileGate({
    ...shared,
    decide: (question, actor) => decideFile(join, question, actor),
    people: (onWaiting) => joinPeople(join, onWaiting),
  });
  return { service, gate };
}

/** The standing grants, and who hears when they or the policy change. */
export async function joinGrants({
  store,
  audit,
  policy,
  clock,
}: Pick<FilesJoin, "store" | "audit" | "clock"> & {
  readonly policy: Pick<LivePolicy, "onChange">;
}): Promise<{
  readonly grants: Grants;
  readonly onPolicyChange: LivePolicy["onChange"];
}> {
  const listeners = new Set<() => void>();
  const grants = await openGrants({
    store,
    clock,
    record: (db, grant) => audit.record(db, toGrantEntry(grant)),
    onChange: () => {
      for (const listener of listeners) listener();
    },
  });
  return {
    grants,
    onPolicyChange: (listener) => {
      const following = policy.onChange(listener);
      listeners.add(listener);
      return {
        [Symbol.dispose]: () => {
          following[Symbol.dispose]();
          listeners.delete(listener);
        },
      };
    },
  };
}

/** What policy and grants say of one path. */
function decideFile(
  { policy, grants, registry }: Pick<FilesJoin, "policy" | "grants" | "registry">,
  question: FileQuestion,
  actor: FileActor,
): FileVerdict {
  const { node, workspace, verb, kind, path, requestedPath, stage } = question;
  const asked = { ...actor, nodeId: node.id, workspace, requestedPath };
  const canonicalPath = stage === "canonical" ? path : undefined;
  // Who may read something may look at it.
  const kinds = kind === "stat" ? [kind, "read"] : [kind];
  const findGrant = (): string | undefined =>
    kinds
      .map((one) => grants.find({ ...asked, kind: one, canonicalPath })?.id)
      .find((id) => id !== undefined);
  const ignoresCase = ignoresCaseOn(node, workspace, registry);
  const place = { workspace, path, ignoresCase, findGrant };
  return policy.decideFile({ agent: actor.agent, node, verb, place });
}

function joinPeople(
  { approvals, grants }: Pick<FilesJoin, "approvals" | "grants">,
  onWaiting?: (approvalId: string) => void,
): FilePeople {
  return {
    ask: (question, { context, noWait }) => {
      const { actor, shown, covers, title, nodeId, rule, mayGrant } = question;
      return approvals.ask(
        {
          title,
          detail: JSON.stringify(shown, undefined, 2),
          agent: actor.agent,
          sessionId: actor.sessionId,
          nodeId,
          rule,
          digest: digestOf(JSON.stringify([actor.sessionId ?? "", shown, covers])),
          mayGrant,
        },
        { signal: context.signal, noWait, ...(onWaiting ? { onWaiting } : {}) },
      );
    },
    keepGrant: async (approvalId, grant) => {
      const { grantMs, decidedBy } = await approvals.get(approvalId);
      if (grantMs === undefined) return;
      await grants.add({ ...toScope(grant), lifeMs: grantMs, approvalId, grantedBy: decidedBy });
    },
  };
}

function toScope({ actor, ...grant }: FileGrant): Omit<FileGrant, "actor"> & {
  readonly agent: string;
  readonly sessionId: string | undefined;
  readonly tool: string | undefined;
} {
  // The agent keeps it: a session that asks today is another one tomorrow.
  return { ...grant, agent: actor.agent, sessionId: undefined, tool: actor.tool };
}

/** The record of a new grant. */
function toGrantEntry(grant: Grant): AuditEntry {
  const { id, nodeId, grantedBy, expiresAt, createdAt: _, ...scope } = grant;
  const after = Object.entries(scope).filter((pair): pair is [string, string] => pair[1] !== undefined);
  return {
    actor: `user:${grantedBy}`,
    action: "grants.create",
    target: `grant:${id}`,
    outcome: "ok",
    nodeId,
    after: { ...Object.fromEntries(after), expiresAt: new Date(expiresAt).toISOString() },
  };
}
