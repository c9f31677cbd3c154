import path from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { CachedVector } from "./embedding/embedding-cache.ts";
import { DamagedIndexError } from "./index-file.ts";
import type {
  IndexCounts,
  IndexReply,
  IndexRequest,
  IndexRequestKind,
  IndexResult,
  IndexThreadOptions,
  OpenedIndex,
  PutFile,
} from "./index-messages.ts";
import type { IndexedFile, IndexFound, IndexSearch } from "./memory-index.ts";
import type { MissingVector } from "./vector-store.ts";

/** An index that lives in another thread. What it holds, but for its passages, is known here too. */
export interface RemoteIndex {
  /** Why it began empty; undefined when it went on. */
  readonly rebuilt: string | undefined;
  readonly files: ReadonlyMap<string, IndexedFile>;
  readonly chunkCount: number;
  /** When it was last known to equal the node's files, in milliseconds since 1970; 0: never. */
  readonly verifiedMs: number;
  /** How many passages wait for their vector. */
  readonly missingVectors: number;
  setVerified(ms: number): Promise<void>;
  /** Replaces a file's passages by those of `text` in one step. */
  put(file: string, indexed: PutFile, text: string): Promise<void>;
  /** Notes when a file was changed whose text is the same. */
  note(file: string, modifiedMs: number): Promise<void>;
  /** Removes a file and its passages in one step. */
  remove(file: string): Promise<void>;
  /**
   * The same, and then nothing of its text is left in the bytes of the index, nor what was made of it in the embedding
   * cache, but for passages that another file holds too. Takes long for a large index.
   */
  forget(file: string): Promise<void>;
  search(search: IndexSearch): Promise<IndexFound>;
  /**
   * Passages that wait for their vector and that the embedding cache has none for, without those whose digest is to be
   * skipped; what the cache has is filled in first.
   */
  findMissing(limit: number, skip: readonly string[]): Promise<readonly MissingVector[]>;
  /** Stores vectors, here and in the embedding cache. */
  putVectors(identity: string, vectors: readonly CachedVector[]): Promise<void>;
  /** How many files hold a passage that waits for its vector. */
  countWaitingFiles(): Promise<number>;
  /** Begins again with an empty index. */
  rebuild(): Promise<void>;
  /** Closes the file; with `forget` it is removed too. */
  close(options: { readonly forget: boolean }): Promise<void>;
}

/** The thread that all indexes live in. Disposing it ends the thread, and with it every open index. */
export interface IndexHost extends AsyncDisposable {
  /** Opens the index file at `path`; see `openIndexFile` for what becomes of one that cannot be used. */
  open(path: string): Promise<RemoteIndex>;
}

/** Starts the thread with the first index; one that ended is started again with the next. */
export function createIndexHost(options: IndexThreadOptions): IndexHost {
  return new Host(options);
}

type Ask = <K extends IndexRequestKind>(request: IndexRequest<K>) => Promise<IndexResult<K>>;

class Host implements IndexHost {
  readonly #options: IndexThreadOptions;
  #thread: Thread | undefined;

  constructor(options: IndexThreadOptions) {
    this.#options = options;
  }

  async open(indexPath: string): Promise<RemoteIndex> {
    this.#thread ??= new Thread(this.#options, () => {
      this.#thread = undefined;
    });
    const thread = this.#thread;
    const opened = await thread.ask<"open">({ kind: "open", path: indexPath });
    return new ThreadIndex(indexPath, opened, (request) => thread.ask(request));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread?.end();
  }
}

class Thread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  #lastId = 0;
  #isEnded = false;

  constructor(workerData: IndexThreadOptions, onEnded: () => void) {
    // The sources end in .ts and what is built from them in .js.
    const ending = path.extname(fileURLToPath(import.meta.url));
    this.#worker = new Worker(new URL(`./index-thread${ending}`, import.meta.url), {
      env: {},
      execArgv: [],
      workerData,
    });
    this.#worker.on("message", (reply: IndexReply) => this.#settle(reply));
    this.#worker.on("error", (error) => this.#fail(error));
    this.#worker.on("exit", () => {
      this.#fail(new Error("the thread of the memory indexes has ended"));
      onEnded();
    });
  }

  async ask<K extends IndexRequestKind>(request: IndexRequest<K>): Promise<IndexResult<K>> {
    if (this.#isEnded) throw new Error("the thread of the memory indexes has ended");
    this.#lastId += 1;
    const id = this.#lastId;
    const waiting = Promise.withResolvers<unknown>();
    this.#waiting.set(id, waiting);
    this.#worker.postMessage({ id, request });
    // The thread answers each kind with what belongs to it.
    return (await waiting.promise) as IndexResult<K>;
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #settle({ id, result, error }: IndexReply): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (!error) waiting?.resolve(result);
    else waiting?.reject(error.isDamage ? new DamagedIndexError(error.message) : new Error(error.message));
  }

  #fail(error: unknown): void {
    this.#isEnded = true;
    for (const waiting of this.#waiting.values()) waiting.reject(error);
    this.#waiting.clear();
  }
}

class ThreadIndex implements RemoteIndex {
  readonly #path: string;
  readonly #ask: Ask;
  readonly #files: Map<string, IndexedFile>;
  rebuilt: string | undefined;
  chunkCount: number;
  missingVectors: number;
  verifiedMs: number;

  constructor(indexPath: string, opened: OpenedIndex, ask: Ask) {
    this.#path = indexPath;
    this.#ask = ask;
    this.#files = new Map(opened.files);
    this.rebuilt = opened.rebuilt;
    this.chunkCount = opened.chunkCount;
    this.missingVectors = opened.missingVectors;
    this.verifiedMs = opened.verifiedMs;
  }

  get files(): ReadonlyMap<string, IndexedFile> {
    return this.#files;
  }

  async setVerified(ms: number): Promise<void> {
    await this.#ask<"verify">({ kind: "verify", path: this.#path, ms });
    this.verifiedMs = ms;
  }

  async put(file: string, given: PutFile, text: string): Promise<void> {
    const put = await this.#ask<"put">({ kind: "put", path: this.#path, file, indexed: given, text });
    this.#count(put);
    this.#files.set(file, put.indexed);
  }

  async note(file: string, modifiedMs: number): Promise<void> {
    await this.#ask<"note">({ kind: "note", path: this.#path, file, modifiedMs });
    const known = this.#files.get(file);
    if (known) this.#files.set(file, { ...known, modifiedMs });
  }

  async remove(file: string): Promise<void> {
    this.#count(await this.#ask<"remove">({ kind: "remove", path: this.#path, file }));
    this.#files.delete(file);
  }

  async forget(file: string): Promise<void> {
    this.#count(await this.#ask<"forget">({ kind: "forget", path: this.#path, file }));
    this.#files.delete(file);
  }

  async search(search: IndexSearch): Promise<IndexFound> {
    return await this.#ask<"search">({ kind: "search", path: this.#path, ...search });
  }

  async findMissing(limit: number, skip: readonly string[]): Promise<readonly MissingVector[]> {
    const found = await this.#ask<"missing">({ kind: "missing", path: this.#path, limit, skip });
    this.#count(found);
    return found.passages;
  }

  async putVectors(identity: string, vectors: readonly CachedVector[]): Promise<void> {
    this.#count(await this.#ask<"vectors">({ kind: "vectors", path: this.#path, identity, vectors }));
  }

  async countWaitingFiles(): Promise<number> {
    return this.missingVectors === 0 ? 0 : await this.#ask<"waiting">({ kind: "waiting", path: this.#path });
  }

  async rebuild(): Promise<void> {
    await this.#ask<"rebuild">({ kind: "rebuild", path: this.#path });
    this.#files.clear();
    this.#count({ chunkCount: 0, missingVectors: 0 });
    this.verifiedMs = 0;
    this.rebuilt = "damaged";
  }

  async close(options: { readonly forget: boolean }): Promise<void> {
    await this.#ask<"close">({ kind: "close", path: this.#path, ...options });
  }

  #count({ chunkCount, missingVectors }: IndexCounts): void {
    this.chunkCount = chunkCount;
    this.missingVectors = missingVectors;
  }
}
