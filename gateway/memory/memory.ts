import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { Fault, isFault } from "../../shared/fault/fault.ts";
import { createBroadcast } from "../../shared/flow/broadcast.ts";
import { Memory } from "../../shared/gen/fairlead/v1/memory_pb.ts";
import type { SessionsGetMemoryResponseSchema } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import { type Clock, startDeadline, systemClock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import type { Log } from "../../shared/log/log.ts";
import { createGlob, type Glob } from "../../shared/names/glob.ts";
import { parseWorkspacePath } from "../../shared/names/workspace-path.ts";
import type { LiveLink, Links } from "../link/links.ts";
import { nameChunking } from "./chunks.ts";
import { createEmbedder, type Embedder } from "./embedding/embedder.ts";
import type { EmbeddingProvider } from "./embedding/embedding-provider.ts";
import { createIndexHost, type IndexHost } from "./index-host.ts";
import { toKeywordQuery } from "./keyword-query.ts";
import { type Candidate, compareHits, toHit, toState, toWire } from "./memory-answers.ts";
import type { IndexFound } from "./memory-index.ts";
import { defaultMemorySettings, type MemorySettings } from "./memory-settings.ts";
import {
  type MemoryHit,
  type MemoryIndexState,
  type MemoryWorkspace,
  type MemoryWorkspaces,
  type MemoryVectors,
  toAddress,
} from "./memory-workspace.ts";
import { askForMeaning } from "./query-meaning.ts";
import { rankHits } from "./ranking/rank-hits.ts";
import { WorkspaceIndex } from "./workspace-index.ts";

/** What `startMemory` takes. */
export interface MemoryOptions {
  readonly links: Links;
  /** Where the index files lie; made when absent. */
  readonly indexDir: string;
  readonly workspaces: MemoryWorkspaces;
  /** How files are indexed and searched; the defaults where nothing is said. */
  readonly settings?: MemorySettings;
  /** Where vectors come from; undefined: searches are by keyword. */
  readonly provider?: EmbeddingProvider | undefined;
  readonly clock?: Clock;
  readonly log: Log;
}

/** What is searched for, and where. */
export interface MemorySearch {
  readonly query: string;
  /** Ids of the workspaces that the caller may read; all by default. An unknown one is `NOT_FOUND`. */
  readonly workspaceIds?: readonly string[];
  /** At most so many hits: 10 by default, at most 100. */
  readonly limit?: number;
  /** Whether the caller may be shown a file of a workspace, or that there is one; every one by default. */
  readonly mayShow?: (workspace: MemoryWorkspace, path: string) => boolean;
  /** Wait until what was written before the question is in the index. */
  readonly waitFresh?: boolean;
  /** How long to wait for that, in milliseconds; 30 s by default. */
  readonly waitMs?: number;
  /** How long vectors may take at most, in milliseconds; never longer than the settings say. */
  readonly vectorsMs?: number;
  readonly signal?: AbortSignal;
}

/** What was found, and how fresh each index is. A workspace that is not `fresh` may hold more. */
export interface MemoryFound {
  /** Best first. */
  readonly hits: readonly MemoryHit[];
  readonly workspaces: readonly MemoryIndexState[];
  /** Whether vectors were to have a part in it and had none. */
  readonly partial: boolean;
  readonly vectors: MemoryVectors;
}

/** Which lines. */
export interface MemoryGet {
  readonly workspaceId: string;
  readonly path: string;
  /** First line, from 1. */
  readonly from?: number;
  /** At most so many lines. */
  readonly lines?: number;
  /** The digest of a hit: the answer says whether the file has another one now. */
  readonly digest?: string;
  readonly signal?: AbortSignal;
}

/** Lines of a memory file, as they are told to a client. */
export type MemoryText = MessageInitShape<typeof SessionsGetMemoryResponseSchema>;

/** The indexes of all workspaces. */
export interface MemoryIndexes extends AsyncDisposable {
  search(search: MemorySearch): Promise<MemoryFound>;
  /** Lines of a memory file from its node; `WORKSPACE_ACCESS_UNAVAILABLE` while the node is away. */
  get(get: MemoryGet): Promise<MemoryText>;
  /** How fresh each index is, compared with its node at this moment where that answers within two seconds. */
  status(workspaceIds?: readonly string[]): Promise<readonly MemoryIndexState[]>;
  /** Where vectors come from, and how it stands with them. */
  vectors(): MemoryVectors;
  /** The id of each workspace whose index has another content now. */
  changes(options: { readonly signal: AbortSignal }): AsyncIterable<{ readonly workspaceId: string }>;
}

const defaultLimit = 10;
const maxLimit = 100;
/** So many times the hits that are asked for are taken from each index, for ranking to choose from. */
const candidatesForHit = 4;
/** How long a search that does not wait for freshness asks the node whether the index still holds. */
const verifyForMs = 250;
const statusForMs = 2000;
const defaultWaitMs = 30_000;
const maxWaitMs = 600_000;

/** Starts the indexes of all workspaces and keeps them current. The caller ends them. */
export async function startMemory(options: MemoryOptions): Promise<MemoryIndexes> {
  mkdirSync(options.indexDir, { recursive: true, mode: 0o700 });
  const indexes = new Indexes(options);
  indexes.start();
  return indexes;
}

interface Held {
  readonly workspace: MemoryWorkspace;
  readonly index: WorkspaceIndex;
}

class Indexes implements MemoryIndexes {
  readonly #options: MemoryOptions;
  readonly #clock: Clock;
  readonly #settings: MemorySettings;
  readonly #embedder: Embedder;
  readonly #evergreen: readonly Glob[];
  readonly #scope = new Scope("memory");
  readonly #host: IndexHost;
  readonly #held = new Map<string, Held>();
  readonly #changes = createBroadcast<{ readonly workspaceId: string }>({
    limit: 10_000,
    keyOf: (change) => change.workspaceId,
    onOverflow: () => ({ workspaceId: "" }),
  });

  constructor(options: MemoryOptions) {
    this.#options = options;
    const { clock = systemClock, settings = defaultMemorySettings, provider, log } = options;
    this.#clock = clock;
    this.#settings = settings;
    this.#evergreen = settings.evergreen.map((pattern) => createGlob(pattern));
    this.#embedder = createEmbedder({ provider, clock, log });
    this.#host = this.#scope.use(
      createIndexHost({
        cache: provider && {
          path: join(options.indexDir, "embeddings.db"),
          maxEntries: settings.cacheEntries,
        },
        identity: provider?.identity ?? "",
        chunkSize: settings.chunkSize,
        vectors: settings.vectors,
      }),
    );
  }

  start(): void {
    this.#adopt();
    this.#scope.spawn("workspaces", async (signal) => {
      for await (const _ of this.#options.workspaces.changes({ signal })) this.#adopt();
    });
    this.#scope.spawn("links", async (signal) => {
      for await (const presence of this.#options.links.changes({ signal })) this.#connect(presence.nodeId);
    });
    this.#scope.defer(async () => {
      this.#changes.close();
      await Promise.all([...this.#held.values()].map((held) => held.index.end({ forget: false })));
    });
  }

  async search(search: MemorySearch): Promise<MemoryFound> {
    const query = toKeywordQuery(search.query);
    const limit = checkLimit(search.limit ?? defaultLimit);
    const waitMs = Math.min(Math.max(0, search.waitMs ?? defaultWaitMs), maxWaitMs);
    const held = this.#select(search.workspaceIds);
    // Asked for beside the wait for freshness, which takes as long.
    const asking = askForMeaning(this.#embedder, search.query, {
      withinMs: Math.min(this.#settings.searchMs, search.vectorsMs ?? Infinity),
      clock: this.#clock,
      signal: search.signal,
    });
    const fresh = await this.#refresh(held, {
      forMs: search.waitFresh === true ? waitMs : verifyForMs,
      ...signalOf(search),
    });
    const meaning = await asking;
    const hits: Candidate[] = [];
    const workspaces: MemoryIndexState[] = [];
    for (const [position, { index, workspace }] of held.entries()) {
      const found = await index.search({ query, limit: limit * candidatesForHit, meaning: meaning.vector });
      const may = (path: string): boolean => search.mayShow?.(workspace, path) ?? true;
      hits.push(...this.#toCandidates(workspace, found).filter(({ path }) => may(path)));
      const state = toState(workspace, index.standing, fresh[position] === true && found.isWhole);
      workspaces.push({ ...state, problems: state.problems.filter(({ path = "" }) => may(path)) });
    }
    const { ranking } = this.#settings;
    const ranked = rankHits(hits.toSorted(compareHits), { ...ranking, nowMs: this.#clock.now(), limit });
    return {
      hits: ranked.map(toHit),
      workspaces,
      partial: meaning.state === "late" || meaning.state === "unavailable",
      vectors: { ...this.vectors(), state: meaning.state },
    };
  }

  async get(get: MemoryGet): Promise<MemoryText> {
    this.#adopt();
    const { workspace } = this.#find(get.workspaceId);
    const from = checkCount("from", get.from ?? 1);
    const lines = get.lines === undefined ? 0 : checkCount("lines", get.lines);
    const link = this.#link(workspace);
    const answer = await link
      .client(Memory)
      .read({ workspace: workspace.name, path: get.path, from, lines }, signalOf(get));
    if (answer.status === "not_found") {
      throw new Fault("NOT_FOUND", `${toAddress(workspace)}/${get.path} does not exist`, {
        details: { path: get.path },
        hint: `fairlead files ls ${toAddress(workspace)}/memory`,
      });
    }
    return {
      text: answer.text,
      firstLine: answer.firstLine,
      lastLine: answer.lastLine,
      totalLines: answer.totalLines,
      truncated: answer.truncated,
      digest: answer.digest,
      changed: get.digest !== undefined && get.digest !== "" && get.digest !== answer.digest,
      workspace: toAddress(workspace),
      path: get.path,
    };
  }

  async status(workspaceIds?: readonly string[]): Promise<readonly MemoryIndexState[]> {
    const held = this.#select(workspaceIds);
    const fresh = await this.#refresh(held, { forMs: statusForMs });
    await Promise.all(held.map(({ index }) => index.countWaiting()));
    return held.map((each, position) =>
      toState(each.workspace, each.index.standing, fresh[position] === true),
    );
  }

  vectors(): MemoryVectors {
    const { provider, model, state, fault, retryAtMs } = this.#embedder.standing;
    return { provider, model, state, fault: toWire(fault), retryMs: BigInt(retryAtMs) };
  }

  changes(options: { readonly signal: AbortSignal }): AsyncIterable<{ readonly workspaceId: string }> {
    return this.#changes.watch(options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#scope.end();
  }

  /** Takes up workspaces that are new and lets go of those that are no more; their index files go with them. */
  #adopt(): void {
    const present = this.#options.workspaces.list();
    const ids = new Set(present.map((workspace) => workspace.id));
    for (const [id, held] of this.#held) {
      if (ids.has(id)) continue;
      this.#held.delete(id);
      this.#scope.spawn("forget", () => held.index.end({ forget: true }));
    }
    for (const workspace of present) {
      const index = this.#held.get(workspace.id)?.index ?? this.#open(workspace);
      this.#held.set(workspace.id, { workspace, index });
      this.#connect(workspace.nodeId);
    }
  }

  #open(workspace: MemoryWorkspace): WorkspaceIndex {
    if (!/^[a-z0-9-]{1,128}$/.test(workspace.id))
      throw new Error("a workspace's id cannot name its index file");
    return new WorkspaceIndex({
      host: this.#host,
      path: join(this.#options.indexDir, `${workspace.id}.db`),
      workspace: workspace.name,
      embedder: this.#embedder,
      chunking: nameChunking(this.#settings.chunkSize),
      clock: this.#clock,
      log: this.#options.log.child({ node: workspace.nodeId }),
      onChange: () => this.#changes.tell({ workspaceId: workspace.id }),
    });
  }

  #connect(nodeId: string): void {
    const link = this.#options.links.find(nodeId);
    for (const held of this.#held.values()) {
      if (held.workspace.nodeId !== nodeId) continue;
      if (link) held.index.connect(link);
      else this.#scope.spawn("disconnect", () => held.index.disconnect());
    }
  }

  #toCandidates(workspace: MemoryWorkspace, { hits }: IndexFound): readonly Candidate[] {
    return hits.map((hit) => ({
      ...hit,
      workspace,
      isEvergreen:
        hit.isEvergreen || this.#evergreen.some((glob) => glob.matches(parseWorkspacePath(hit.path))),
    }));
  }

  #select(ids: readonly string[] | undefined): readonly Held[] {
    // What was linked or exported a moment ago counts, though its change was not told yet.
    this.#adopt();
    return ids === undefined ? [...this.#held.values()] : ids.map((id) => this.#find(id));
  }

  #find(id: string): Held {
    const held = this.#held.get(id);
    if (held) return held;
    throw new Fault("NOT_FOUND", "there is no such workspace", {
      hint: "fairlead workspaces ls",
      details: { field: "workspace" },
    });
  }

  async #refresh(
    held: readonly Held[],
    wait: { readonly forMs: number; readonly signal?: AbortSignal },
  ): Promise<readonly boolean[]> {
    using patience = startDeadline({ timeoutMs: wait.forMs, signal: wait.signal, clock: this.#clock });
    const fresh = await Promise.all(held.map((each) => each.index.refresh(patience.signal)));
    wait.signal?.throwIfAborted();
    return fresh;
  }

  #link(workspace: MemoryWorkspace): LiveLink {
    try {
      return this.#options.links.get(workspace.nodeId);
    } catch (error) {
      if (!isFault(error, "NODE_OFFLINE")) throw error;
      throw new Fault(
        "WORKSPACE_ACCESS_UNAVAILABLE",
        `${toAddress(workspace)} cannot be reached: its node is offline`,
        {
          details: { ...error.details, reason: "node_offline" },
          hint: `fairlead nodes show ${workspace.alias}`,
          cause: error,
        },
      );
    }
  }
}

function checkLimit(limit: number): number {
  if (Number.isInteger(limit) && limit >= 1 && limit <= maxLimit) return limit;
  throw new Fault("INVALID_ARGUMENT", `the limit must be 1 to ${maxLimit}`, {
    details: { field: "limit", limit: maxLimit, actual: limit },
  });
}

function checkCount(field: "from" | "lines", count: number): number {
  if (Number.isInteger(count) && count >= 1 && count <= 0x7fff_ffff) return count;
  throw new Fault("INVALID_ARGUMENT", `${field} must be a whole number from 1 on`, { details: { field } });
}

function signalOf(options: { readonly signal?: AbortSignal }): { readonly signal?: AbortSignal } {
  return options.signal ? { signal: options.signal } : {};
}
