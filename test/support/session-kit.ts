import { createApprovals, type Approvals } from "../../gateway/approvals/approvals.ts";
import type { Grants } from "../../gateway/approvals/grants.ts";
import type { AuditRecord } from "../../gateway/audit/audit-record.ts";
import { createWorkspaceRegistry } from "../../gateway/files/registry.ts";
import { type FilesJoin, joinFiles, joinGrants } from "../../gateway/join-files.ts";
import type { NodeProfile, NodeRecord, Nodes } from "../../gateway/pairing/nodes.ts";
import type { ToolLists } from "../../gateway/policy/policy-file.ts";
import { createPolicy } from "../../gateway/policy/policy.ts";
import type { SessionFace } from "../../gateway/sessions/face.ts";
import { createMemoryTools } from "../../gateway/sessions/memory-tools.ts";
import { openLocalFace, type FaceParts } from "../../gateway/sessions/session-face.ts";
import type { SessionMemory } from "../../gateway/sessions/session-memory.ts";
import type { SessionSkills } from "../../gateway/sessions/session-skills.ts";
import { createSessions, type Sessions } from "../../gateway/sessions/sessions.ts";
import { createTokens, type Tokens } from "../../gateway/sessions/tokens.ts";
import type { CatalogueSkill } from "../../gateway/skills/catalogue-skill.ts";
import type { CallHooks } from "../../gateway/tools/call-hooks.ts";
import { createToolCatalogue, type ToolCatalogue } from "../../gateway/tools/catalogue.ts";
import type { FileGate } from "../../gateway/tools/file-gate.ts";
import { createTools, type Tools } from "../../gateway/tools/tools.ts";
import { createFiles } from "../../node-agent/files/files.ts";
import { openJobs } from "../../node-agent/jobs/jobs.ts";
import { createPathJudge } from "../../node-agent/tools/check-call.ts";
import { createCommandFolders } from "../../node-agent/tools/command-folder.ts";
import type { ExecMode } from "../../node-agent/tools/exec-rules.ts";
import { createNodeTools, type NodeTools } from "../../node-agent/tools/node-tools.ts";
import type { ExportSettings } from "../../node-agent/workspace/export-settings.ts";
import { startExports } from "../../node-agent/workspace/exports.ts";
import { startManifests } from "../../node-agent/workspace/manifests.ts";
import { digestOf } from "../../shared/content/digest.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { createQueue, type Queue } from "../../shared/flow/queue.ts";
import { Files } from "../../shared/gen/fairlead/v1/files_pb.ts";
import { Tools as ToolsDescriptor } from "../../shared/gen/fairlead/v1/tools_pb.ts";
import { systemClock, type Clock } from "../../shared/lifetime/clock.ts";
import { silentLog } from "../../shared/log/log.ts";
import { serve } from "../../shared/rpc/service.ts";
import { createDirectLinks, type DirectLinks } from "./direct-link.ts";
import { openTestAudit } from "./open-audit.ts";
import { makeTempFolder } from "./temp-folder.ts";
import { makeTempWorkspace, type TempWorkspace, type TreeOfFiles } from "./temp-workspace.ts";

/** A machine of the kit. */
export interface KitNodeOptions {
  readonly alias?: string;
  readonly profile?: NodeProfile;
  readonly exec?: ExecMode;
  readonly allow?: readonly string[];
  readonly files?: TreeOfFiles;
  readonly writable?: boolean;
}

/** A machine with one workspace `app`, its real files and tools, linked without a wire. */
export interface KitNode {
  readonly record: NodeRecord;
  readonly workspace: TempWorkspace;
  readonly tools: NodeTools;
  /** Links it, and reads what it publishes. */
  connect(): Promise<void>;
  /** Ends its link and withdraws everything of it. */
  disconnect(): void;
  /** Changes how far commands go. */
  setExec(mode: ExecMode): void;
}

/** What a kit is made of. */
export interface SessionKitOptions {
  readonly agents?: Readonly<Record<string, ToolLists>>;
  readonly policy?: string;
  readonly skills?: readonly CatalogueSkill[];
  /** Told of each file of a skill that is read. */
  readonly onSkillRead?: (name: string, path: string) => void;
  readonly hooks?: readonly CallHooks[];
  readonly clock?: Clock;
}

/** The rooms of a gateway that sessions need, over a store of their own, with machines of this process. */
export interface SessionKit extends AsyncDisposable, FaceParts {
  readonly sessions: Sessions;
  readonly tokens: Tokens;
  readonly approvals: Approvals;
  readonly grants: Grants;
  /** All records of file operations. */
  records(): Promise<readonly AuditRecord[]>;
  readonly catalogue: ToolCatalogue;
  readonly links: DirectLinks;
  readonly tools: Tools;
  readonly clock: Clock;
  /** The skills that every session sees; set to change them. */
  setSkills(skills: readonly CatalogueSkill[]): void;
  addNode(options?: KitNodeOptions): Promise<KitNode>;
  face(sessionId: string): SessionFace;
}

/** A skill as a catalogue has it. */
export function makeSkill(name: string, more: Partial<CatalogueSkill> = {}): CatalogueSkill {
  const frontMatter = { name, description: `how to ${name}`, metadata: { version: "1" } };
  return {
    name: `devbox-${name}`,
    description: frontMatter.description,
    owner: "devbox",
    nodeId: "devbox",
    workspace: "app",
    folder: `skills/${name}`,
    state: "eligible",
    reasons: [],
    digest: digestOf(skillText(name)),
    revision: "",
    source: "node",
    root: "",
    location: `skill://devbox/${name}/SKILL.md`,
    frontMatterJson: JSON.stringify(frontMatter),
    ...more,
  };
}

/** What the kit's skills say. */
export function skillText(name: string): string {
  return `---\nname: ${name}\ndescription: how to ${name}\n---\nDo it.\n`;
}

/** Opens the rooms; the caller disposes them. */
export async function openSessionKit(options: SessionKitOptions = {}): Promise<SessionKit> {
  await using stack = new AsyncDisposableStack();
  const { clock = systemClock } = options;
  const home = stack.use(await makeTempFolder());
  const record = stack.use(await openTestAudit(home, { clock }));
  const { store, audit } = record;
  const records = new Map<string, NodeRecord>();
  const nodes = toNodes(records);
  const links = createDirectLinks();
  const registry = createWorkspaceRegistry({ links, clock });
  const catalogue = createToolCatalogue();
  const policy = createPolicy({
    agents: options.agents ?? {},
    ...(options.policy === undefined ? {} : { file: { name: "policy.yaml", text: options.policy } }),
  });
  const approvals = createApprovals({ store, clock });
  const { grants, gate } = await joinGate({ store, audit, nodes, policy, registry, approvals, clock });
  const skills = new KitSkills(options.skills ?? [], options.onSkillRead);
  const tools = createTools({
    catalogue,
    links,
    nodes,
    workspaces: registry,
    policy,
    approvals,
    fileGate: gate,
    host: createMemoryTools(kitMemory),
    hooks: options.hooks ?? [],
    skillNames: (caller) => skills.names(caller),
    clock,
  });
  const sessions = createSessions({
    store,
    nodes,
    links,
    workspaces: registry,
    policy,
    agents: Object.keys(options.agents ?? {}),
    clock,
  });
  const parts = { sessions, tools, skills, memory: kitMemory };
  const owned = stack.move();
  return {
    ...parts,
    tokens: createTokens({ store, clock }),
    approvals,
    grants,
    records: async () => (await record.all()).filter(({ action }) => action.startsWith("files.")),
    catalogue,
    links,
    clock,
    setSkills: (next) => skills.set(next),
    addNode: (node) =>
      addNode(node ?? {}, { stack: owned, records, links, readers: [registry.reader, catalogue.reader] }),
    face: (sessionId) => openLocalFace(sessionId, parts),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

/** The gate before tools for files, with the grants that it goes by. */
async function joinGate(
  parts: Omit<FilesJoin, "grants" | "onPolicyChange">,
): Promise<{ readonly grants: Grants; readonly gate: FileGate }> {
  const onChange = (): Disposable => ({ [Symbol.dispose]: () => undefined });
  const { grants, onPolicyChange } = await joinGrants({ ...parts, policy: { onChange } });
  const { gate } = await joinFiles({ ...parts, grants, onPolicyChange });
  return { grants, gate };
}

interface NodeParts {
  readonly stack: AsyncDisposableStack;
  readonly records: Map<string, NodeRecord>;
  readonly links: DirectLinks;
  readonly readers: readonly ToolCatalogue["reader"][];
}

async function addNode(options: KitNodeOptions, parts: NodeParts): Promise<KitNode> {
  const { alias = "devbox", profile = "full", writable = true } = options;
  const workspace = parts.stack.use(await makeTempWorkspace(options.files ?? {}));
  const home = parts.stack.use(await makeTempFolder());
  const settings = toExport(workspace.path, writable);
  const limits = { treeEntries: 10_000, treeDepth: 64 };
  const exports = parts.stack.use(await startExports([settings], { homeDir: home.path, limits }));
  const exec = { mode: options.exec ?? "full", allow: options.allow ?? [] };
  const kept = { dir: home.join("node", "manifest"), names: ["app"], clock: systemClock, log: silentLog };
  const files = createFiles(exports, parts.stack.use(await startManifests(kept)));
  const jobs = parts.stack.use(
    await openJobs({ dir: home.join("node", "jobs"), version: "0", clock: systemClock }),
  );
  parts.stack.defer(() => jobs.endAll(new Fault("CANCELLED", "the test has ended")));
  const tools = createNodeTools({
    files,
    workspaces: () => exports.list().map((one) => one.settings.name),
    exec: { settings: () => exec, environment: process.env, openFolder: createCommandFolders(exports), jobs },
    judgePath: createPathJudge(exports),
    publish: () => undefined,
  });
  const record = toRecord(alias, profile);
  parts.records.set(record.id, record);
  const services = [serve(Files, files), serve(ToolsDescriptor, tools.service)];
  const node: KitNode = {
    record,
    workspace,
    tools,
    setExec: (mode) => {
      exec.mode = mode;
    },
    connect: async () => {
      const link = parts.links.connect({ nodeId: record.id, services });
      for (const reader of parts.readers) await reader.read(link, { epoch: 1n, digest: "" });
    },
    disconnect: () => {
      parts.links.disconnect(record.id);
      for (const reader of parts.readers) reader.withdraw(record.id, "node_offline");
    },
  };
  await node.connect();
  return node;
}

function toExport(dir: string, writable: boolean): ExportSettings {
  return {
    name: "app",
    dir,
    read: ["**"],
    write: writable ? ["**"] : [],
    deny: [],
    remove: true,
    move: true,
    mkdir: true,
    followSymlinks: false,
    allowHardLinks: false,
    maxFileBytes: undefined,
  };
}

function toRecord(alias: string, profile: NodeProfile): NodeRecord {
  return {
    id: alias,
    alias,
    labels: {},
    profile,
    note: "",
    keyDigest: "",
    pairedAt: 0,
    certificateExpiresAt: 0,
    issuerPin: "",
    revokedAt: undefined,
    hostName: "",
    platform: "linux",
  };
}

function toNodes(records: ReadonlyMap<string, NodeRecord>): Pick<Nodes, "find" | "list" | "resolve"> {
  return {
    find: async (id) => records.get(id),
    list: async () => [...records.values()],
    resolve: async (reference) => {
      const node = records.get(reference);
      if (node) return node;
      throw new Fault("NOT_FOUND", `there is no node ${reference}`);
    },
  };
}

class KitSkills implements SessionSkills {
  #skills: readonly CatalogueSkill[];
  readonly #onRead: SessionKitOptions["onSkillRead"];
  readonly #watchers = new Set<Queue<undefined>>();

  constructor(skills: readonly CatalogueSkill[], onRead: SessionKitOptions["onSkillRead"]) {
    this.#skills = skills;
    this.#onRead = onRead;
  }

  set(skills: readonly CatalogueSkill[]): void {
    this.#skills = skills;
    for (const queue of this.#watchers) void queue.push(undefined);
  }

  list(): ReturnType<SessionSkills["list"]> {
    return Promise.resolve({
      skills: this.#skills,
      snapshot: digestOf(JSON.stringify(this.#skills)),
      builtMs: 0,
      reason: "first_use",
      staleSinceMs: undefined,
    });
  }

  prepare(): ReturnType<SessionSkills["prepare"]> {
    return this.list();
  }

  async names(..._caller: Parameters<SessionSkills["names"]>): Promise<readonly string[]> {
    return this.#skills.map(({ name }) => name);
  }

  async files(...[, { name }]: Parameters<SessionSkills["files"]>): ReturnType<SessionSkills["files"]> {
    const skill = this.#skills.find((one) => one.name === name);
    if (!skill) throw new Fault("NOT_FOUND", "there is no such skill");
    const texts = { "SKILL.md": skillText(skill.folder.slice("skills/".length)), "extra.txt": "more" };
    return Object.entries(texts).map(([path, text]) => ({
      path,
      sizeBytes: Buffer.byteLength(text),
      digest: digestOf(text),
      isExecutable: false,
    }));
  }

  async *read(...[, request]: Parameters<SessionSkills["read"]>): ReturnType<SessionSkills["read"]> {
    this.#onRead?.(request.name, request.path);
    const skill = this.#skills.find((one) => one.name === request.name);
    if (!skill || !["", "SKILL.md", "extra.txt"].includes(request.path)) {
      throw new Fault("NOT_FOUND", "there is no such file");
    }
    const text = request.path === "extra.txt" ? "more" : skillText(skill.folder.slice("skills/".length));
    const bytes = Buffer.from(text);
    yield { kind: "header", sizeBytes: bytes.byteLength };
    yield { kind: "chunk", bytes };
    yield { kind: "trailer", sizeBytes: bytes.byteLength, digest: digestOf(bytes) };
  }

  async *changes(options: { readonly signal: AbortSignal }): AsyncGenerator<undefined> {
    const queue = createQueue<undefined>(1_000);
    this.#watchers.add(queue);
    options.signal.addEventListener("abort", () => queue.close(), { once: true });
    yield* queue;
  }
}

const kitMemory: SessionMemory = {
  vectors: () => ({ provider: "none", state: "none" }),
  search: async (_caller, { query }) => ({
    hits: [
      {
        node: "devbox",
        workspace: "devbox:/app",
        path: "MEMORY.md",
        firstLine: 3,
        lastLine: 4,
        digest: digestOf("memory"),
        score: 0.5,
        text: `about ${query}`,
      },
    ],
    workspaces: [{ workspace: "devbox:/app", fresh: true, verifiedMs: 1n, files: 1, chunks: 1 }],
  }),
  get: async (_caller, { path }) => ({ text: "line\n", firstLine: 1, lastLine: 1, totalLines: 1, path }),
  status: async () => [],
  changes: async function* changes({ signal }) {
    await new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => resolve(), { once: true });
    });
    yield* [];
  },
};
