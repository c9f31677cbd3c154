import { writeFile } from "node:fs/promises";
import { createApprovals, type Approval, type Approvals } from "../../gateway/approvals/approvals.ts";
import type { Grants } from "../../gateway/approvals/grants.ts";
import type { AuditRecord } from "../../gateway/audit/audit-record.ts";
import { noWaitHeader } from "../../gateway/files/asking-headers.ts";
import { createWorkspaceRegistry, type WorkspaceRegistry } from "../../gateway/files/registry.ts";
import { joinFiles, joinGrants } from "../../gateway/join-files.ts";
import type { NodeProfile, NodeRecord } from "../../gateway/pairing/nodes.ts";
import { type LivePolicy, openPolicy } from "../../gateway/policy/live-policy.ts";
import type { Store } from "../../gateway/store/store.ts";
import { Files } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { systemClock, type Clock } from "../../shared/lifetime/clock.ts";
import type { Client } from "../../shared/rpc/service.ts";
import { createDirectClient } from "../contract/files/direct-client.ts";
import {
  openTempExports,
  type TempExports,
  type TempExportsOptions,
} from "../unit/workspace/temp-exports.ts";
import { openTestAudit } from "./open-audit.ts";
import { makeTempFolder, type TempFolder } from "./temp-folder.ts";

/** What a kit is made of. */
export interface FilesKitOptions extends TempExportsOptions {
  readonly fill?: (dir: string, outside: string) => void;
  /** The policy file's text. */
  readonly policy?: string;
  readonly profile?: NodeProfile;
  /** The node says that its volume ignores case. */
  readonly ignoresCase?: boolean;
  readonly clock?: Clock;
  /** Where the gateway keeps its state; a folder of its own by default. */
  readonly home?: TempFolder;
  /** Hears what the policy allows though it may not be meant so. */
  readonly onWarning?: (warning: string) => void;
  /** How long a person is waited for, in milliseconds; the gateway's default without it. */
  readonly approvalWaitMs?: number;
  /** Told of each call to the node. */
  readonly onNodeCall?: (method: string) => void;
}

/** The id of the kit's node. */
export const kitNodeId = "0123456789abcdef0123";

/** A gateway's files over a folder of this machine, with policy, grants, people and record, all in one process. */
export interface FilesKit extends AsyncDisposable {
  readonly temp: TempExports;
  /** Of the node. */
  readonly dir: string;
  /** Waits for people. */
  readonly client: Client<typeof Files>;
  /** `APPROVAL_REQUIRED` instead of waiting. */
  readonly hasty: Client<typeof Files>;
  readonly policy: LivePolicy;
  readonly policyFile: string;
  readonly approvals: Approvals;
  readonly grants: Grants;
  readonly store: Store;
  readonly registry: WorkspaceRegistry;
  readonly node: { alias: string; readonly id: string };
  /** What waits for a person, once there is one more than `after`. */
  waiting(): Promise<Approval>;
  /** All records of file operations. */
  records(): Promise<readonly AuditRecord[]>;
}

/** Opens the rooms; the caller disposes them. */
export async function openFilesKit(options: FilesKitOptions = {}): Promise<FilesKit> {
  await using stack = new AsyncDisposableStack();
  const { clock = systemClock } = options;
  const home = options.home ?? stack.use(await makeTempFolder());
  const temp = stack.use(await openTempExports(options.fill, options));
  const record = stack.use(await openTestAudit(home, { clock }));
  const { audit, store } = record;
  const policyFile = home.join("policy.yaml");
  if (options.policy !== undefined) await writeFile(policyFile, options.policy);
  const policy = stack.use(
    await openPolicy({
      agents: {},
      place: { policyFile, policyFileNamed: false },
      clock: systemClock,
      onTaken: () => undefined,
      onFault: () => undefined,
      onWarning: options.onWarning ?? (() => undefined),
    }),
  );
  const node = makeNode(options.profile ?? "full");
  const waits = options.approvalWaitMs === undefined ? {} : { waitMs: options.approvalWaitMs };
  const approvals = createApprovals({ store, clock, ...waits });
  const { grants, onPolicyChange } = await joinGrants({ store, audit, policy, clock });
  const registry = createWorkspaceRegistry({ links: noLinks, clock });
  const nodeFiles = toldOf(createDirectClient(Files, temp.files), options.onNodeCall);
  const offer = { nodeId: node.id, workspace: "app", writable: true, containment: "kernel", leaseEpoch: 1n };
  const folding = { case: options.ignoresCase ?? false, form: false };
  registry.register({ ...offer, folding }, () => nodeFiles);
  const known = async (): Promise<NodeRecord> => ({ ...node });
  const nodes = { resolve: known, find: known };
  const { service: face } = await joinFiles({
    store,
    audit,
    nodes,
    policy,
    registry,
    approvals,
    grants,
    clock,
    onPolicyChange,
  });
  const owned = stack.move();
  return {
    temp,
    dir: temp.dir,
    client: createDirectClient(Files, face),
    hasty: createDirectClient(Files, face, new Map([[noWaitHeader, "1"]])),
    policy,
    policyFile,
    approvals,
    grants,
    store,
    registry,
    node,
    waiting: () => waitForApproval(approvals),
    records: async () => (await record.all()).filter(({ action }) => action.startsWith("files.")),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function toldOf<T extends object>(client: T, tell: FilesKitOptions["onNodeCall"]): T {
  if (!tell) return client;
  return new Proxy(client, {
    get: (target, name): unknown => {
      tell(String(name));
      return Reflect.get(target, name);
    },
  });
}

async function waitForApproval(approvals: Approvals): Promise<Approval> {
  for (;;) {
    const [first] = await approvals.list();
    if (first) return first;
    await systemClock.sleep(5);
  }
}

function makeNode(profile: NodeProfile): NodeRecord & { alias: string } {
  return {
    id: kitNodeId,
    alias: "devbox",
    labels: {},
    profile,
    note: "",
    keyDigest: "",
    issuerPin: "",
    pairedAt: 0,
    certificateExpiresAt: 0,
    revokedAt: undefined,
    hostName: "",
    platform: "linux",
  };
}

const noLinks = {
  find: () => undefined,
  get: (): never => {
    throw new Error("the kit's node is registered with a client of its own");
  },
  presence: (nodeId: string) => ({
    nodeId,
    state: "online" as const,
    sinceMs: 0,
    reason: "linked",
    generation: 1,
    lastSeenMs: 0,
    address: "",
    hello: undefined,
  }),
};
