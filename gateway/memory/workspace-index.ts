import { faultFromError } from "../../shared/fault/fault-from-error.ts";
import { type Fault, type FaultJson, isFault, toFaultJson } from "../../shared/fault/fault.ts";
import { Memory } from "../../shared/gen/fairlead/v1/memory_pb.ts";
import { createBackoff } from "../../shared/lifetime/backoff.ts";
import { type Clock, raceSignal } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import type { Log } from "../../shared/log/log.ts";
import type { LiveLink } from "../link/links.ts";
import { toChunks } from "./chunks.ts";
import { followWatch } from "./follow-watch.ts";
import type { KeywordQuery } from "./keyword-query.ts";
import { type IndexHit, MemoryIndex } from "./memory-index.ts";
import { listMemoryFiles, type MemoryListing, type NodeCall, readMemoryFile } from "./node-files.ts";

/** What `WorkspaceIndex` needs. */
export interface WorkspaceIndexOptions {
  /** The index file. */
  readonly path: string;
  /** The export's name on the node. */
  readonly workspace: string;
  readonly clock: Clock;
  readonly log: Log;
  /** Called after the index has another content. */
  readonly onChange: () => void;
}

/** How fresh an index is. */
export interface IndexStanding {
  readonly verifiedMs: number;
  readonly pending: number;
  readonly files: number;
  readonly chunks: number;
  /** Why it may not equal the node's files; empty when it was found equal and nothing is known to have changed since. */
  readonly reason: string;
  readonly problems: readonly { readonly path: string; readonly fault: FaultJson }[];
}

/** A wait for a comparison that began after it was asked for. */
interface Barrier {
  /** Whether the comparison and the reads that it called for succeeded. */
  readonly done: PromiseWithResolvers<boolean>;
}

const readsAtOnce = 8;
const longestTurnMs = 15;
const compareEveryMs = 15_000;

/**
 * The index of one workspace and what keeps it equal to the node's files: a watch that says what changed, and comparisons
 * of the whole list, which are what is believed. One task writes; readers never stop it.
 */
export class WorkspaceIndex implements AsyncDisposable {
  readonly #options: WorkspaceIndexOptions;
  readonly #index: MemoryIndex;
  readonly #changed = new Set<string>();
  #session: { readonly link: LiveLink; readonly scope: Scope } | undefined;
  #barriers: Barrier[] = [];
  #wake: PromiseWithResolvers<void> = Promise.withResolvers();
  #mustCompare = true;
  /** Why comparisons or the watch fail; empty while they do not. */
  #trouble = "";
  #isVerified = false;
  #turnBeganAt = 0;

  constructor(options: WorkspaceIndexOptions) {
    this.#options = options;
    this.#index = new MemoryIndex(options.path);
    if (this.#index.rebuilt !== undefined && this.#index.rebuilt !== "missing") {
      options.log.warn("a memory index is built again", {
        workspace: options.workspace,
        reason: this.#index.rebuilt,
      });
    }
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
    for (const barrier of this.#barriers.splice(0)) barrier.done.resolve(false);
    await session?.scope.end();
  }

  /**
   * Waits until the index equals what the node had when this was called. Says whether it does; false at once without a
   * link, and when `signal` aborts first. The work goes on all the same.
   */
  async refresh(signal: AbortSignal): Promise<boolean> {
    if (!this.#session || this.#session.link.signal.aborted) return false;
    const barrier: Barrier = { done: Promise.withResolvers() };
    this.#barriers.push(barrier);
    this.#requestCompare();
    try {
      return (await raceSignal(barrier.done.promise, signal)) && this.standing.pending === 0;
    } catch {
      // The signal is the caller's patience, and its end is an answer: not known to be fresh.
      return false;
    }
  }

  /** How fresh it is. */
  get standing(): IndexStanding {
    const problems = [];
    let pending = this.#changed.size;
    for (const [path, file] of this.#index.files) {
      if (!file.fault) continue;
      problems.push({ path, fault: file.fault });
      if (file.digest === "" && file.fault.retryable) pending += 1;
    }
    return {
      verifiedMs: this.#index.verifiedMs,
      pending,
      files: this.#index.files.size - problems.length,
      chunks: this.#index.chunkCount,
      reason: this.#reason(),
      problems,
    };
  }

  /** The best passages. A file that turns out to be damaged is begun again: then there are none, and it is not fresh. */
  search(query: KeywordQuery, limit: number): readonly IndexHit[] {
    try {
      return this.#index.search(query, limit);
    } catch (error) {
      this.#rebuild(error);
      return [];
    }
  }

  /** Ends everything; with `forget` the file goes too. */
  async end(options: { readonly forget: boolean }): Promise<void> {
    await this.disconnect();
    if (options.forget) this.#index.destroy();
    else this.#index[Symbol.dispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.end({ forget: false });
  }

  #reason(): string {
    if (!this.#session || this.#session.link.signal.aborted) return "node_offline";
    if (this.#trouble !== "") return this.#trouble;
    if (!this.#isVerified) return this.#index.rebuilt === "damaged" ? "rebuilding" : "not_verified";
    return "";
  }

  #rebuild(error: unknown): void {
    this.#options.log.error("a memory index is damaged and is built again", {
      workspace: this.#options.workspace,
      error: String(error),
    });
    this.#index.rebuild();
    this.#isVerified = false;
    this.#requestCompare();
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
        this.#changed.add(path);
        this.#wake.resolve();
      },
      onTrouble: (fault) => {
        this.#trouble = fault === undefined ? "" : "watch_unavailable";
        if (fault) this.#options.log.warn("the watch of memory files is unavailable", { code: fault.code });
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
      if (!this.#mustCompare && this.#changed.size === 0) await raceSignal(this.#wake.promise, call.signal);
      this.#wake = Promise.withResolvers();
      try {
        await this.#syncOnce(call);
        backoff.reset();
      } catch (error) {
        call.signal.throwIfAborted();
        this.#failSync(error);
        await this.#options.clock.sleep(backoff.next(), { signal: call.signal });
        this.#requestCompare();
      }
    }
  }

  async #syncOnce(call: NodeCall): Promise<void> {
    const barriers = this.#mustCompare ? this.#barriers.splice(0) : [];
    let isEqual = false;
    try {
      const startedMs = this.#options.clock.now();
      const wasCompared = this.#mustCompare;
      if (wasCompared) {
        this.#mustCompare = false;
        await this.#compare(await listMemoryFiles(call), call.signal);
      }
      await this.#readChanged(call);
      isEqual = wasCompared;
      this.#isVerified ||= wasCompared;
      if (this.#isVerified) this.#index.setVerified(startedMs);
    } finally {
      for (const barrier of barriers) barrier.done.resolve(isEqual);
    }
  }

  #failSync(error: unknown): void {
    this.#isVerified = false;
    this.#mustCompare = true;
    if (isFault(error)) this.#options.log.warn("memory files could not be compared", { code: error.code });
    else this.#rebuild(error);
  }

  async #compare(listing: MemoryListing, signal: AbortSignal): Promise<void> {
    for (const path of this.#index.files.keys()) {
      if (listing.files.has(path) || listing.skipped.has(path)) continue;
      this.#remove(path);
      await this.#breathe(signal);
    }
    for (const [path, fault] of listing.skipped) {
      this.#putFault(path, fault, "skipped");
      await this.#breathe(signal);
    }
    for (const [path, file] of listing.files) {
      const known = this.#index.files.get(path);
      if (known?.digest !== file.digest) this.#changed.add(path);
    }
  }

  async #readChanged(call: NodeCall): Promise<void> {
    const paths = [...this.#changed];
    const readNext = async (): Promise<void> => {
      for (let path = paths.pop(); path !== undefined; path = paths.pop()) {
        // Taken off first: a change that is told while the file is read puts it back on.
        this.#changed.delete(path);
        try {
          await this.#readOne(call, path);
        } catch (error) {
          this.#changed.add(path);
          throw error;
        }
        await this.#breathe(call.signal);
      }
    };
    const ends = await Promise.allSettled(Array.from({ length: readsAtOnce }, readNext));
    for (const end of ends) if (end.status === "rejected") throw end.reason;
  }

  /** Lets others have their turn when this one was long. */
  async #breathe(signal: AbortSignal): Promise<void> {
    if (performance.now() - this.#turnBeganAt < longestTurnMs) return;
    await this.#options.clock.sleep(0, { signal });
    this.#turnBeganAt = performance.now();
  }

  async #readOne(call: NodeCall, path: string): Promise<void> {
    try {
      const answer = await readMemoryFile(call, path, this.#options.clock);
      call.signal.throwIfAborted();
      if (!answer) return this.#remove(path);
      const sizeBytes = Buffer.byteLength(answer.text);
      this.#index.put(path, { digest: answer.digest, sizeBytes, fault: undefined }, toChunks(answer.text));
      this.#options.onChange();
    } catch (error) {
      call.signal.throwIfAborted();
      if (!isFault(error)) throw error;
      this.#putFault(path, error, "failed");
    }
  }

  #putFault(path: string, fault: Fault, kind: "skipped" | "failed"): void {
    // A failed file has no digest here, so the next comparison finds it different and reads it again.
    const known = this.#index.files.get(path);
    if (known?.fault?.code === fault.code && known.fault.message === fault.message) return;
    const json = { ...toFaultJson(faultFromError(fault)), retryable: kind === "failed" };
    this.#index.put(path, { digest: "", sizeBytes: 0, fault: json }, []);
    this.#options.onChange();
  }

  #remove(path: string): void {
    if (!this.#index.files.has(path)) return;
    this.#index.remove(path);
    this.#options.onChange();
  }
}
