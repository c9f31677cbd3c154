import { crc32 } from "node:zlib";
import { type FaultJson } from "../../shared/fault/fault.ts";
import type { Chunk } from "./chunks.ts";
import type { CachedVector } from "./embedding/embedding-cache.ts";
import { DamagedIndexError, openIndexFile, removeIndexFile } from "./index-file.ts";
import { type OpenIndex, prepareStatements } from "./index-statements.ts";
import type { KeywordQuery } from "./keyword-query.ts";
import { combineScores } from "./ranking/combine-scores.ts";
import {
  defaultVectorMemoryBytes,
  type MissingVector,
  VectorStore,
  type VectorStoreOptions,
} from "./vector-store.ts";

/** A file as the index holds it. */
export interface IndexedFile {
  readonly digest: string;
  readonly sizeBytes: number;
  /** When it was last changed, in milliseconds since 1970. */
  readonly modifiedMs: number;
  /** How its text was cut; see `nameChunking`. */
  readonly chunking: string;
  /** Whether the file says of itself that it does not age. */
  readonly isEvergreen: boolean;
  /** Why its text is not in the index; undefined when it is. */
  readonly fault: FaultJson | undefined;
}

/** A passage that was found. */
export interface IndexHit {
  readonly path: string;
  readonly digest: string;
  readonly firstLine: number;
  readonly lastLine: number;
  readonly text: string;
  /** When its file was last changed, in milliseconds since 1970. */
  readonly modifiedMs: number;
  readonly isEvergreen: boolean;
  /** Above 0.5 when it holds all words of the query, at most 0.5 when only some, 0 when none; never above 1. */
  readonly keyword: number;
  /** The cosine of query and passage, 0 to 1; undefined when no vectors were asked, or it has none. */
  readonly vector: number | undefined;
  /** Both together, 0 to 1. */
  readonly score: number;
}

/** A query's vector, and what made it. */
export interface QueryVector {
  readonly identity: string;
  readonly vector: Float32Array;
}

/** What is looked for. */
export interface IndexSearch {
  readonly query: KeywordQuery;
  /** At most so many passages. */
  readonly limit: number;
  /** Undefined: by keyword only. */
  readonly meaning?: QueryVector | undefined;
}

/** What was found. */
export interface IndexFound {
  /** Best first. */
  readonly hits: readonly IndexHit[];
  /** Whether vectors had a part in it; else every score is the keyword's. */
  readonly byVector: boolean;
}

/** How an index is kept. */
export interface MemoryIndexOptions {
  readonly vectors?: VectorStoreOptions;
}

/** The index of one workspace: its memory files' passages and where they come from. Synchronous, a file at a time. */
export class MemoryIndex implements Disposable {
  readonly #path: string;
  readonly #options: MemoryIndexOptions;
  readonly #files = new Map<string, IndexedFile>();
  #open: OpenIndex;
  #chunks = 0;
  #rebuilt: string | undefined;

  /** Opens the index file at `path`; see `openIndexFile` for what becomes of one that cannot be used. */
  constructor(path: string, options: MemoryIndexOptions = {}) {
    this.#path = path;
    this.#options = options;
    this.#open = this.#openFile();
  }

  /** Why it began empty when it was last opened; undefined when it went on. */
  get rebuilt(): string | undefined {
    return this.#rebuilt;
  }

  /** Every file it knows, those without text too. */
  get files(): ReadonlyMap<string, IndexedFile> {
    return this.#files;
  }

  /** How many passages it holds. */
  get chunkCount(): number {
    return this.#chunks;
  }

  /** When it was last known to equal the node's files, in milliseconds since 1970; 0: never. */
  get verifiedMs(): number {
    return Number(this.#open.readMeta.get("verified")?.["value"] ?? 0);
  }

  /** Notes that it equals the node's files at `ms`. */
  setVerified(ms: number): void {
    this.#open.writeMeta.run("verified", String(ms));
  }

  /** How many passages wait for their vector. */
  get missingVectors(): number {
    return this.#open.vectors.missingCount;
  }

  /** How many numbers its vectors have; 0 while there is none. */
  get vectorLength(): number {
    return this.#open.vectors.dimensions;
  }

  /** How many files hold a passage that waits for its vector. */
  countWaitingFiles(): number {
    return this.#open.vectors.countWaitingFiles();
  }

  /** Says what makes vectors from now on, empty: nothing; those of anything else go in one step. */
  useVectors(identity: string): void {
    this.#inOneStep(() => this.#open.vectors.use(identity));
  }

  /** Passages that wait for their vector, without those whose digest is to be skipped. */
  missing(limit: number, skip: ReadonlySet<string>): readonly MissingVector[] {
    return this.#open.vectors.missing(limit, skip);
  }

  /** Stores vectors in one step, unless something else makes them by now. */
  putVectors(identity: string, vectors: readonly CachedVector[]): void {
    if (identity !== this.#open.vectors.identity) return;
    this.#inOneStep(() => this.#open.vectors.put(vectors));
  }

  /** Replaces a file's passages in one step; what they have in common with those before keeps its vectors. */
  put(path: string, file: IndexedFile, chunks: readonly Chunk[]): void {
    this.#inOneStep(() => {
      const before = this.#takeChunks(path);
      const fault = file.fault === undefined ? null : JSON.stringify(file.fault);
      const { digest, sizeBytes, modifiedMs, chunking, isEvergreen } = file;
      const id = Number(
        this.#open.putFile.get(path, digest, sizeBytes, modifiedMs, chunking, isEvergreen ? 1 : 0, fault)?.[
          "id"
        ],
      );
      const wants = this.#open.vectors.identity !== "";
      for (const chunk of chunks) {
        const chunkDigest = Buffer.from(chunk.digest, "hex");
        const { firstLine, lastLine, heading, text } = chunk;
        this.#open.addChunk.run(id, firstLine, lastLine, heading, text, chunkDigest, crc32(text));
        if (wants) this.#open.vectors.want(chunkDigest);
      }
      this.#open.vectors.release(before);
      this.#chunks += chunks.length;
    });
    this.#files.set(path, file);
  }

  /** Notes what a file is now whose text is the same. */
  note(path: string, modifiedMs: number): void {
    const file = this.#files.get(path);
    if (!file) return;
    this.#open.noteFile.run(modifiedMs, path);
    this.#files.set(path, { ...file, modifiedMs });
  }

  /** Removes a file and its passages in one step. */
  remove(path: string): void {
    if (!this.#files.has(path)) return;
    this.#inOneStep(() => {
      const before = this.#takeChunks(path);
      this.#open.removeFile.run(path);
      this.#open.vectors.release(before);
    });
    this.#files.delete(path);
  }

  /**
   * Removes a file and leaves nothing of its text in the bytes of the index. Gives the digests of its passages that no
   * other file holds.
   */
  forget(path: string): readonly string[] {
    const { database, digestsOf, holdersOf } = this.#open;
    const digests = digestsOf.all(path).map(({ digest }) => digest as Uint8Array);
    this.remove(path);
    // Words of what was removed stand in the word index until its parts are put together.
    database.exec("INSERT INTO words (words) VALUES ('optimize'); PRAGMA wal_checkpoint(TRUNCATE);");
    return digests
      .filter((digest) => holdersOf.get(digest) === undefined)
      .map((digest) => Buffer.from(digest).toString("hex"));
  }

  /**
   * The best passages by keyword (those with all words first, then, with room left, those with some of them) and, with
   * a vector of what makes this index's, by meaning. `isDamage` tells an error of a file that holds other bytes than
   * were written to it.
   */
  search({ query, limit, meaning }: IndexSearch): IndexFound {
    const { vectors } = this.#open;
    const byVector =
      meaning !== undefined &&
      meaning.identity === vectors.identity &&
      meaning.vector.length === vectors.dimensions;
    const found = new Map<number, Found>();
    for (const [id, one] of this.#findWords(query, limit)) found.set(id, one);
    if (byVector) {
      for (const { id, score } of vectors.nearest(meaning.vector, limit)) {
        for (const row of this.#open.chunksOfVector.all(id)) {
          const chunk = Number(row["id"]);
          found.set(chunk, { row, keyword: found.get(chunk)?.keyword ?? 0, vector: score });
        }
      }
    }
    const hits = Array.from(found.values(), (one) => {
      if (!byVector || one.vector !== undefined) return toHit(one);
      return toHit({ ...one, vector: vectors.scoreOf(one.row["digest"] as Uint8Array, meaning.vector) });
    });
    return { hits: hits.toSorted(compareHits), byVector };
  }

  /** Begins again with an empty index: the file was found to be damaged. */
  rebuild(): void {
    this[Symbol.dispose]();
    removeIndexFile(this.#path);
    this.#open = this.#openFile();
    this.#rebuilt = "damaged";
  }

  /** Closes the file and removes it. */
  destroy(): void {
    this[Symbol.dispose]();
    removeIndexFile(this.#path);
  }

  [Symbol.dispose](): void {
    this.#open.vectors.dropVectors();
    if (this.#open.database.isOpen) this.#open.database.close();
  }

  #openFile(): OpenIndex {
    const { database, rebuilt } = openIndexFile(this.#path);
    this.#rebuilt = rebuilt;
    const vectors = this.#options.vectors ?? { maxMemoryBytes: defaultVectorMemoryBytes, native: true };
    const open = prepareStatements(database, new VectorStore(database, vectors));
    this.#files.clear();
    for (const row of database.prepare("SELECT * FROM files").iterate()) {
      this.#files.set(String(row["path"]), {
        digest: String(row["digest"]),
        sizeBytes: Number(row["size_bytes"]),
        modifiedMs: Number(row["modified_ms"]),
        chunking: String(row["chunking"]),
        isEvergreen: row["evergreen"] === 1,
        fault: row["fault"] === null ? undefined : (JSON.parse(String(row["fault"])) as FaultJson),
      });
    }
    this.#chunks = Number(database.prepare("SELECT count(*) AS n FROM chunks").get()?.["n"] ?? 0);
    return open;
  }

  /** Takes a file's passages out; gives their digests. */
  #takeChunks(path: string): readonly Uint8Array[] {
    const digests = this.#open.removeChunks.all(path).map(({ digest }) => digest as Uint8Array);
    this.#chunks -= digests.length;
    return digests;
  }

  *#findWords(query: KeywordQuery, limit: number): Iterable<readonly [number, Found]> {
    if (query.all === undefined) return;
    const found = new Set<number>();
    for (const row of this.#open.search.all(query.all, limit)) {
      found.add(Number(row["id"]));
      yield [Number(row["id"]), { row, keyword: toKeywordScore(row, 0.5), vector: undefined }];
    }
    if (query.any === undefined || found.size >= limit) return;
    // Those with all words are among these again, so as many more are asked for.
    for (const row of this.#open.search.all(query.any, limit + found.size)) {
      const id = Number(row["id"]);
      if (found.has(id) || found.size >= limit) continue;
      found.add(id);
      yield [id, { row, keyword: toKeywordScore(row, 0), vector: undefined }];
    }
  }

  #inOneStep(work: () => void): void {
    const chunks = this.#chunks;
    this.#open.database.exec("BEGIN IMMEDIATE");
    try {
      work();
      this.#open.database.exec("COMMIT");
    } catch (error) {
      this.#chunks = chunks;
      this.#open.vectors.forgetChanges();
      if (this.#open.database.isTransaction) this.#open.database.exec("ROLLBACK");
      throw error;
    }
  }
}

interface Found {
  readonly row: Record<string, unknown>;
  readonly keyword: number;
  readonly vector: number | undefined;
}

function toKeywordScore(row: Record<string, unknown>, base: number): number {
  // BM25 as SQLite gives it: negative, and the more so the better the passage.
  const strength = Math.abs(Number(row["rank"]));
  const part = Number.isFinite(strength) ? strength / (1 + strength) : 0;
  return base + part / 2;
}

function toHit({ row, keyword, vector: cosine }: Found): IndexHit {
  const text = String(row["text"]);
  if (crc32(text) !== Number(row["sum"]))
    throw new DamagedIndexError("a passage is not the one that was written");
  const vector = cosine === undefined ? undefined : Math.min(1, Math.max(0, cosine));
  return {
    path: String(row["path"]),
    digest: String(row["file_digest"]),
    firstLine: Number(row["first_line"]),
    lastLine: Number(row["last_line"]),
    text,
    modifiedMs: Number(row["modified_ms"]),
    isEvergreen: row["evergreen"] === 1,
    keyword,
    vector,
    // What waits for its vector is judged by its words alone, so that an edit is found before it was embedded.
    score: combineScores(vector === undefined ? { keyword } : { keyword, vector }),
  };
}

/** Equal questions give equal orders: what scores alike is ordered by where it stands. */
function compareHits(a: IndexHit, b: IndexHit): number {
  if (a.score !== b.score) return b.score - a.score;
  if (a.path !== b.path) return a.path < b.path ? -1 : 1;
  return a.firstLine - b.firstLine;
}
