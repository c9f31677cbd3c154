import type { DatabaseSync, StatementSync } from "node:sqlite";
import { crc32 } from "node:zlib";
import { type FaultJson } from "../../shared/fault/fault.ts";
import type { Chunk } from "./chunks.ts";
import { DamagedIndexError, openIndexFile, removeIndexFile } from "./index-file.ts";
import type { KeywordQuery } from "./keyword-query.ts";

/** A file as the index holds it. */
export interface IndexedFile {
  readonly digest: string;
  readonly sizeBytes: number;
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
  /** Above 0.5 when it holds all words of the query, at most 0.5 when only some; never above 1. */
  readonly score: number;
}

/** The index of one workspace: its memory files' passages and where they come from. Synchronous, a file at a time. */
export class MemoryIndex implements Disposable {
  readonly #path: string;
  readonly #files = new Map<string, IndexedFile>();
  #open: OpenIndex;
  #chunks = 0;
  #rebuilt: string | undefined;

  /** Opens the index file at `path`; see `openIndexFile` for what becomes of one that cannot be used. */
  constructor(path: string) {
    this.#path = path;
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

  /** Replaces a file's passages in one step. */
  put(path: string, file: IndexedFile, chunks: readonly Chunk[]): void {
    this.#inOneStep(() => {
      const id = this.#replaceFile(path, file);
      for (const { firstLine, lastLine, text } of chunks) {
        this.#open.addChunk.run(id, firstLine, lastLine, text, crc32(text));
      }
      this.#chunks += chunks.length;
    });
    this.#files.set(path, file);
  }

  /** Removes a file and its passages in one step. */
  remove(path: string): void {
    if (!this.#files.has(path)) return;
    this.#inOneStep(() => {
      this.#removeChunks(path);
      this.#open.removeFile.run(path);
    });
    this.#files.delete(path);
  }

  /** The best passages (`isDamage` tells an error of a file that holds other bytes than were written): those with all words first, then, with room left, those with some of them. */
  search(query: KeywordQuery, limit: number): readonly IndexHit[] {
    if (query.all === undefined) return [];
    const found = new Map<number, IndexHit>();
    for (const row of this.#open.search.all(query.all, limit)) found.set(Number(row["id"]), toHit(row, 0.5));
    if (query.any !== undefined && found.size < limit) {
      // Those with all words are among these again, so as many more are asked for.
      for (const row of this.#open.search.all(query.any, limit + found.size)) {
        const id = Number(row["id"]);
        if (!found.has(id) && found.size < limit) found.set(id, toHit(row, 0));
      }
    }
    return [...found.values()];
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
    if (this.#open.database.isOpen) this.#open.database.close();
  }

  #openFile(): OpenIndex {
    const { database, rebuilt } = openIndexFile(this.#path);
    this.#rebuilt = rebuilt;
    const open = prepareStatements(database);
    this.#files.clear();
    for (const row of database.prepare("SELECT path, digest, size_bytes, fault FROM files").iterate()) {
      this.#files.set(String(row["path"]), {
        digest: String(row["digest"]),
        sizeBytes: Number(row["size_bytes"]),
        fault: row["fault"] === null ? undefined : (JSON.parse(String(row["fault"])) as FaultJson),
      });
    }
    this.#chunks = Number(database.prepare("SELECT count(*) AS n FROM chunks").get()?.["n"] ?? 0);
    return open;
  }

  #replaceFile(path: string, file: IndexedFile): number {
    this.#removeChunks(path);
    const fault = file.fault === undefined ? null : JSON.stringify(file.fault);
    return Number(this.#open.putFile.get(path, file.digest, file.sizeBytes, fault)?.["id"]);
  }

  #removeChunks(path: string): void {
    this.#chunks -= Number(this.#open.removeChunks.run(path).changes);
  }

  #inOneStep(work: () => void): void {
    const chunks = this.#chunks;
    this.#open.database.exec("BEGIN IMMEDIATE");
    try {
      work();
      this.#open.database.exec("COMMIT");
    } catch (error) {
      this.#chunks = chunks;
      if (this.#open.database.isTransaction) this.#open.database.exec("ROLLBACK");
      throw error;
    }
  }
}

interface OpenIndex {
  readonly database: DatabaseSync;
  readonly readMeta: StatementSync;
  readonly writeMeta: StatementSync;
  readonly putFile: StatementSync;
  readonly removeFile: StatementSync;
  readonly addChunk: StatementSync;
  readonly removeChunks: StatementSync;
  readonly search: StatementSync;
}

function prepareStatements(database: DatabaseSync): OpenIndex {
  return {
    database,
    readMeta: database.prepare("SELECT value FROM meta WHERE key = ?"),
    writeMeta: database.prepare(
      "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    ),
    putFile: database.prepare(
      `INSERT INTO files (path, digest, size_bytes, fault) VALUES (?, ?, ?, ?)
       ON CONFLICT (path) DO UPDATE SET digest = excluded.digest, size_bytes = excluded.size_bytes, fault = excluded.fault
       RETURNING id`,
    ),
    removeFile: database.prepare("DELETE FROM files WHERE path = ?"),
    addChunk: database.prepare(
      "INSERT INTO chunks (file, first_line, last_line, text, sum) VALUES (?, ?, ?, ?, ?)",
    ),
    removeChunks: database.prepare("DELETE FROM chunks WHERE file = (SELECT id FROM files WHERE path = ?)"),
    search: database.prepare(
      `SELECT chunks.id, files.path, files.digest, chunks.first_line, chunks.last_line, chunks.text, chunks.sum, found.rank
       FROM (SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?) AS found
       JOIN chunks ON chunks.id = found.rowid JOIN files ON files.id = chunks.file
       ORDER BY found.rank, files.path, chunks.first_line`,
    ),
  };
}

function toHit(row: Record<string, unknown>, base: number): IndexHit {
  // BM25 as SQLite gives it: negative, and the more so the better the passage.
  const strength = Math.abs(Number(row["rank"]));
  const text = String(row["text"]);
  if (crc32(text) !== Number(row["sum"]))
    throw new DamagedIndexError("a passage is not the one that was written");
  const part = Number.isFinite(strength) ? strength / (1 + strength) : 0;
  return {
    path: String(row["path"]),
    digest: String(row["digest"]),
    firstLine: Number(row["first_line"]),
    lastLine: Number(row["last_line"]),
    text,
    score: base + part / 2,
  };
}
