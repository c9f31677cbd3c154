import { type FaultJson, isFault } from "../../shared/fault/fault.ts";
import { Memory } from "../../shared/gen/fairlead/v1/memory_pb.ts";
import { createBackoff } from "../../shared/lifetime/backoff.ts";
import { type Clock, raceSignal } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import type { Log } from "../../shared/log/log.ts";
import type { LiveLink } from "../link/links.ts";
import type { Embedder } from "./embedding/embedder.ts";
import { followWatch } from "./follow-watch.ts";
import { isDamage } from "./index-file.ts";
import type { IndexHost, RemoteIndex } from "./index-host.ts";
import { IndexWriter } from "./index-writer.ts";
import type { IndexFound, IndexSearch } from "./memory-index.ts";
import { listMemoryFiles, type NodeCall } from "./node-files.ts";
import { VectorFiller } from "./vector-filler.ts";

/** What `WorkspaceIndex` needs. */
export interface WorkspaceIndexOptions {
  readonly host: IndexHost;
  /** The index file. */
  readonly path: string;
  /** The export's name on the node. */
  readonly workspace: string;
  readonly embedder: Embedder;
  /** How texts are cut. */
  readonly chunking: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Called after the index has another content. */
  readonly onChange: () => void;
}

/** How fresh an index is. */
export interface IndexStanding {
  readonly verifiedMs: number;
  /** Files whose text is not in the index yet. */
  readonly pending: number;
  /** Passages that wait for their vector. */
  readonly missingVectors: number;
  /** Files that hold such passages, as of when that was counted last. */
  readonly waitingFiles: number;
  /** Why they wait that could be embedded by now; undefined when nothing is known to be wrong. */
  readonly vectorFault: FaultJson | undefined;
  readonly files: number;
  readonly chunks: number;
  /** Why it may not equal the node's files; empty when it was found equal and nothing is known to have changed since. */
  readonly reason: string;
  readonly problems: readonly { readonly path: string; readonly fault: FaultJson }[];
}

/** Passages, and whether the index could be asked. */
export interface IndexAnswer extends IndexFound {
  /** False when the index turned out to be damaged or out of reach: there may be more. */
  readonly isWhole: boolean;
}

interface Session {
  readonly link: LiveLink;
  readonly scope: Scope;
}

const compareEveryMs = 15_000;
/** How old a count of the files that wait for vectors may be, in milliseconds. */
const countEveryMs = 1_000;

/**
 * The index of one workspace and what keeps it equal to the node's files: a watch that says what changed, and comparisons
 * of the whole list, which are what is believed. One task writes; readers never stop it.
 */
export class WorkspaceIndex implements AsyncDisposable {
  readonly #options: WorkspaceIndexOptions;
  readonly #writer: IndexWriter;
  readonly #filler: VectorFiller;
  readonly #life: Scope;
  #waiting = { files: 0, countedAt: 0 };
  #index: RemoteIndex | undefined;
  #opening: Promise<RemoteIndex> | undefined;
  #isEnded = false;
  #session: Session | undefined;
  /** Waits for a comparison that began after it was asked for: whether it and the reads it called for succeeded. */
  #barriers: PromiseWithResolvers<boolean>[] = [];
  #wake: PromiseWithResolvers<void> = Promise.withResolvers();
  #mustCompare = true;
  #isVerified = false;
  /** Why the watch does not run; empty while it does. */
  #watchTrouble = "";
  /** Why the index file cannot be used, or is being filled anew; empty while neither is so. */
  #indexTrouble = "";

  constructor(options: WorkspaceIndexOptions) {
    this.#options = options;
    const { clock, chunking, embedder } = options;
    const onChange = (): void => {
      this.#filler.wake();
      options.onChange();
    };
    this.#writer = new IndexWriter({ clock, chunking, onChange });
    this.#filler = new VectorFiller({
      embedder,
      clock,
      index: () => this.#index,
      dropChanged: (files, signal) => this.#dropChanged(files, signal),
      onTrouble: (error) => this.#meetTrouble(error),
      onChange: options.onChange,
    });
    this.#life = new Scope(`vectors of ${options.workspace}`);
    this.#life.spawn("vectors", (signal) => this.#filler.run(signal));
    void this.#tryOpen();
  }

  /** The node is there: follows its files until the link ends. */
  connect(link: LiveLink): void {
    if (this.#session?.link === link || link.signal.aborted) return;
    void this.disconnect();
    const scope = new Scope(`memory of ${this.#options.workspace}`, link.signal);
    this.#session = { link, scope };
    this.#mustCompare = true;
    const call = { client: link.client(Memory), workspace: this.#options.workspace };
    scope.spawn("watch", (signal) => this.#follow({ ...call, signal }));
    scope.spawn("sync", (signal) => this.#sync({ ...call, signal }));
    scope.spawn("compare", (signal) => this.#compareNowAndThen(signal));
  }

  /** The node is away; what is indexed stays. Resolves when nothing of it runs. */
  async disconnect(): Promise<void> {
    const session = this.#session;
    this.#session = undefined;
    this.#isVerified = false;
    for (const barrier of this.#barriers.splice(0)) barrier.resolve(false);
    await session?.scope.end();
  }

  /**
   * Waits until the index equals what the node had when this was called. Says whether it does; false at once without a
   * link, and when `signal` aborts first. The work goes on all the same.
   */
  async refresh(signal: AbortSignal): Promise<boolean> {
    if (!this.#session || this.#session.link.signal.aborted) return false;
    const barrier = Promise.withResolvers<boolean>();
    this.#barriers.push(barrier);
    this.#requestCompare();
    try {
      return (await raceSignal(barrier.promise, signal)) && this.standing.pending === 0;
    } catch {
      // The signal is the caller's patience, and its end is an answer: not known to be fresh.
      return false;
    }
  }

  /** How fresh it is. */
  get standing(): IndexStanding {
    const problems = [];
    let pending = this.#writer.changed.size;
    for (const [path, { fault }] of this.#index?.files ?? []) {
      if (!fault) continue;
      problems.push({ path, fault });
      if (fault.retryable) pending += 1;
    }
    return {
      verifiedMs: this.#index?.verifiedMs ?? 0,
      pending,
      missingVectors: this.#index?.missingVectors ?? 0,
      waitingFiles: this.#index?.missingVectors ? this.#waiting.files : 0,
      vectorFault: this.#index?.missingVectors ? this.#filler.fault : undefined,
      files: (this.#index?.files.size ?? 0) - problems.length,
      chunks: this.#index?.chunkCount ?? 0,
      reason: this.#reason(),
      problems: problems.toSorted((a, b) => (a.path < b.path ? -1 : 1)),
    };
  }

  /** The best passages. An index that turns out to be damaged is begun again. */
  async search(search: IndexSearch): Promise<IndexAnswer> {
    const index = await this.#tryOpen();
    if (!index) return { hits: [], byVector: false, isWhole: false };
    try {
      await this.#countWaiting(index);
      return { ...(await index.search(search)), isWhole: this.#indexTrouble === "" };
    } catch (error) {
      await this.#meetTrouble(error);
      this.#requestCompare();
      return { hits: [], byVector: false, isWhole: false };
    }
  }

  /** Counts the files that wait for vectors, so that `standing` knows; a count of this second is taken as it is. */
  async countWaiting(): Promise<void> {
    const index = await this.#tryOpen();
    if (index) await this.#countWaiting(index).catch((error: unknown) => this.#meetTrouble(error));
  }

  /** Ends everything; with `forget` the file goes too. */
  async end(options: { readonly forget: boolean }): Promise<void> {
    this.#isEnded = true;
    await this.disconnect();
    await this.#life.end();
    const index = await this.#opening?.catch(() => undefined);
    this.#index = undefined;
    await index?.close(options).catch((error: unknown) => this.#logTrouble(error));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end({ forget: false });
  }

  #reason(): string {
    if (this.#indexTrouble !== "") return this.#indexTrouble;
    if (!this.#session || this.#session.link.signal.aborted) return "node_offline";
    if (this.#watchTrouble !== "") return this.#watchTrouble;
    return this.#isVerified ? "" : "not_verified";
  }

  async #tryOpen(): Promise<RemoteIndex | undefined> {
    try {
      return await this.#open();
    } catch (error) {
      await this.#meetTrouble(error);
      return undefined;
    }
  }

  #open(): Promise<RemoteIndex> {
    if (this.#isEnded) return Promise.reject(new Error("the index was closed"));
    this.#opening ??= this.#openOnce();
    return this.#opening;
  }

  async #openOnce(): Promise<RemoteIndex> {
    const { host, path, log, workspace } = this.#options;
    const index = await host.open(path);
    this.#index = index;
    this.#indexTrouble = "";
    this.#filler.wake();
    if (index.rebuilt === undefined || index.rebuilt === "missing") return index;
    log.warn("a memory index is built again", { workspace, reason: index.rebuilt });
    // Until the node's files are in it, nothing that it does not hold means anything.
    this.#indexTrouble = "rebuilding";
    return index;
  }

  /** What a failed use of the index file comes to: a damaged one is begun again, any other is opened again later. */
  async #meetTrouble(error: unknown): Promise<void> {
    if (this.#isEnded) return;
    this.#logTrouble(error);
    this.#isVerified = false;
    this.#indexTrouble = "index_unavailable";
    const index = this.#index;
    if (isDamage(error) && index) {
      try {
        await index.rebuild();
        this.#indexTrouble = "rebuilding";
        return;
      } catch (again) {
        this.#logTrouble(again);
      }
    }
    this.#index = undefined;
    this.#opening = undefined;
  }

  #logTrouble(error: unknown): void {
    const { log, workspace } = this.#options;
    log.error("a memory index cannot be used", { workspace, error: String(error) });
  }

  async #countWaiting(index: RemoteIndex): Promise<void> {
    const now = this.#options.clock.now();
    if (index.missingVectors === 0 || now - this.#waiting.countedAt < countEveryMs) return;
    this.#waiting = { files: await index.countWaitingFiles(), countedAt: now };
  }

  /** Files of these that the node has another text of, or none: their old text goes, and they are read again. */
  async #dropChanged(files: ReadonlySet<string>, signal: AbortSignal): Promise<ReadonlySet<string>> {
    const session = this.#session;
    const index = this.#index;
    if (!session || !index) return new Set();
    try {
      const client = session.link.client(Memory);
      const call = { client, workspace: this.#options.workspace, signal };
      const dropped = await this.#writer.dropChanged(index, call, files);
      if (dropped.size > 0) this.#wake.resolve();
      return dropped;
    } catch (error) {
      signal.throwIfAborted();
      // A node that is away cannot say; the comparison once it is back does.
      if (isFault(error)) return new Set();
      throw error;
    }
  }

  #requestCompare(): void {
    this.#mustCompare = true;
    this.#wake.resolve();
  }

  async #follow(call: NodeCall): Promise<void> {
    await followWatch(call, {
      clock: this.#options.clock,
      onCompare: () => this.#requestCompare(),
      onChanged: (path) => {
        this.#writer.changed.add(path);
        this.#wake.resolve();
      },
      onTrouble: (fault) => {
        this.#watchTrouble = fault === undefined ? "" : "watch_unavailable";
        // A node's worker ends whenever its configuration changes, and the next one is watched at once.
        const level = fault?.details["reason"] === "worker_gone" ? "debug" : "warn";
        if (fault) this.#options.log[level]("the watch of memory files is unavailable", { code: fault.code });
      },
    });
  }

  async #compareNowAndThen(signal: AbortSignal): Promise<void> {
    for (;;) {
      await this.#options.clock.sleep(compareEveryMs, { signal });
      this.#requestCompare();
    }
  }

  async #sync(call: NodeCall): Promise<void> {
    const backoff = createBackoff({ firstMs: 200, maxMs: 15_000 });
    for (;;) {
      if (!this.#mustCompare && this.#writer.changed.size === 0)
        await raceSignal(this.#wake.promise, call.signal);
      this.#wake = Promise.withResolvers();
      try {
        await this.#syncOnce(call);
        backoff.reset();
      } catch (error) {
        call.signal.throwIfAborted();
        await this.#failSync(error);
        await this.#options.clock.sleep(backoff.next(), { signal: call.signal });
      }
    }
  }

  async #syncOnce(call: NodeCall): Promise<void> {
    const isComparison = this.#mustCompare;
    // Taken before the first wait: who asks from now on gets a comparison that begins after that.
    const barriers = isComparison ? this.#barriers.splice(0) : [];
    this.#mustCompare = false;
    let isEqual = false;
    try {
      const index = await this.#open();
      const startedMs = this.#options.clock.now();
      if (isComparison) {
        await this.#writer.compare(index, await listMemoryFiles(call), call.signal);
      }
      await this.#writer.readChanged(index, call);
      isEqual = isComparison;
      this.#isVerified ||= isComparison;
      if (isComparison) this.#indexTrouble = "";
      if (this.#isVerified) await index.setVerified(startedMs);
    } finally {
      for (const barrier of barriers) barrier.resolve(isEqual);
    }
  }

  async #failSync(error: unknown): Promise<void> {
    this.#isVerified = false;
    this.#mustCompare = true;
    if (!isFault(error)) return await this.#meetTrouble(error);
    const { log, workspace } = this.#options;
    log.warn("memory files could not be compared", { workspace, code: error.code });
  }
}
