import path from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import { DamagedIndexError } from "./index-file.ts";
import type { IndexReply, IndexRequest, OpenedIndex } from "./index-messages.ts";
import type { KeywordQuery } from "./keyword-query.ts";
import type { IndexedFile, IndexHit } from "./memory-index.ts";

/** An index that lives in another thread. What it holds, but for its passages, is known here too. */
export interface RemoteIndex {
  /** Why it began empty; undefined when it went on. */
  readonly rebuilt: string | undefined;
  readonly files: ReadonlyMap<string, IndexedFile>;
  readonly chunkCount: number;
  /** When it was last known to equal the node's files, in milliseconds since 1970; 0: never. */
  readonly verifiedMs: number;
  setVerified(ms: number): Promise<void>;
  /** Replaces a file's passages by those of `text` in one step. */
  put(file: string, indexed: IndexedFile, text: string): Promise<void>;
  /** Removes a file and its passages in one step. */
  remove(file: string): Promise<void>;
  search(query: KeywordQuery, limit: number): Promise<readonly IndexHit[]>;
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
export function createIndexHost(): IndexHost {
  return new Host();
}

type Ask = (request: IndexRequest) => Promise<unknown>;

class Host implements IndexHost {
  #thread: Thread | undefined;

  async open(indexPath: string): Promise<RemoteIndex> {
    this.#thread ??= new Thread(() => {
      this.#thread = undefined;
    });
    const thread = this.#thread;
    const opened = (await thread.ask({ kind: "open", path: indexPath })) as OpenedIndex;
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

  constructor(onEnded: () => void) {
    // The sources end in .ts and what is built from them in .js.
    const ending = path.extname(fileURLToPath(import.meta.url));
    this.#worker = new Worker(new URL(`./index-thread${ending}`, import.meta.url), { env: {}, execArgv: [] });
    this.#worker.on("message", (reply: IndexReply) => this.#settle(reply));
    this.#worker.on("error", (error) => this.#fail(error));
    this.#worker.on("exit", () => {
      this.#fail(new Error("the thread of the memory indexes has ended"));
      onEnded();
    });
  }

  async ask(request: IndexRequest): Promise<unknown> {
    if (this.#isEnded) throw new Error("the thread of the memory indexes has ended");
    this.#lastId += 1;
    const id = this.#lastId;
    const waiting = Promise.withResolvers<unknown>();
    this.#waiting.set(id, waiting);
    this.#worker.postMessage({ id, request });
    return await waiting.promise;
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
  verifiedMs: number;

  constructor(indexPath: string, opened: OpenedIndex, ask: Ask) {
    this.#path = indexPath;
    this.#ask = ask;
    this.#files = new Map(opened.files);
    this.rebuilt = opened.rebuilt;
    this.chunkCount = opened.chunkCount;
    this.verifiedMs = opened.verifiedMs;
  }

  get files(): ReadonlyMap<string, IndexedFile> {
    return this.#files;
  }

  async setVerified(ms: number): Promise<void> {
    await this.#ask({ kind: "verify", path: this.#path, ms });
    this.verifiedMs = ms;
  }

  async put(file: string, indexed: IndexedFile, text: string): Promise<void> {
    this.chunkCount = (await this.#ask({ kind: "put", path: this.#path, file, indexed, text })) as number;
    this.#files.set(file, indexed);
  }

  async remove(file: string): Promise<void> {
    this.chunkCount = (await this.#ask({ kind: "remove", path: this.#path, file })) as number;
    this.#files.delete(file);
  }

  async search(query: KeywordQuery, limit: number): Promise<readonly IndexHit[]> {
    return (await this.#ask({ kind: "search", path: this.#path, query, limit })) as readonly IndexHit[];
  }

  async rebuild(): Promise<void> {
    await this.#ask({ kind: "rebuild", path: this.#path });
    this.#files.clear();
    this.chunkCount = 0;
    this.verifiedMs = 0;
    this.rebuilt = "damaged";
  }

  async close(options: { readonly forget: boolean }): Promise<void> {
    await this.#ask({ kind: "close", path: this.#path, ...options });
  }
}
