import { DatabaseSync, type StatementSync } from "node:sqlite";
import { removeIndexFile } from "../index-file.ts";
import { toBytes, toVector } from "./vector-bytes.ts";

/** Most vectors that are kept beside the indexes. */
export const defaultCacheEntries = 50_000;

/** Vectors by what they were made of: a text's digest, and what made them. Hex digests; vectors of unit length. */
export interface CachedVector {
  readonly digest: string;
  readonly vector: Float32Array;
}

const schemaVersion = 1;

const schema = `
  CREATE TABLE models (id INTEGER PRIMARY KEY, identity TEXT NOT NULL UNIQUE) STRICT;
  CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    model INTEGER NOT NULL REFERENCES models (id),
    digest BLOB NOT NULL,
    vector BLOB NOT NULL,
    used INTEGER NOT NULL,
    UNIQUE (digest, model)
  ) STRICT;
  CREATE INDEX entries_by_use ON entries (used);
  PRAGMA user_version = ${schemaVersion};
`;

/**
 * Vectors that were paid for once: a text that comes back, in another file or after another model, is not embedded
 * again. It holds digests and vectors and no text. Beyond its limit goes what was used least recently. Synchronous.
 */
export class EmbeddingCache implements Disposable {
  readonly #database: DatabaseSync;
  readonly #maxEntries: number;
  readonly #statements: Statements;
  #entries: number;
  #used: number;

  /** Opens the file, or begins a new one when it is missing or of no use. */
  constructor(path: string, maxEntries: number) {
    this.#maxEntries = maxEntries;
    this.#database = openCacheFile(path);
    this.#statements = prepareStatements(this.#database);
    const [facts] = this.#database.prepare("SELECT count(*) AS n, max(used) AS used FROM entries").all();
    this.#entries = Number(facts?.["n"] ?? 0);
    this.#used = Number(facts?.["used"] ?? 0);
    this.#inOneStep(() => this.#shrink());
  }

  /** How many vectors it holds. */
  get size(): number {
    return this.#entries;
  }

  /** The vectors that it has of these texts; each counts as used now. */
  find(identity: string, digests: readonly string[]): ReadonlyMap<string, Float32Array> {
    const found = new Map<string, Float32Array>();
    this.#inOneStep(() => {
      const model = this.#statements.findModel.get(identity)?.["id"];
      if (model === undefined) return;
      for (const digest of digests) {
        this.#used += 1;
        const row = this.#statements.use.get(this.#used, Buffer.from(digest, "hex"), Number(model));
        if (row) found.set(digest, toVector(row["vector"] as Uint8Array));
      }
    });
    return found;
  }

  /** Keeps vectors; what was used least recently goes. */
  put(identity: string, vectors: readonly CachedVector[]): void {
    this.#inOneStep(() => {
      const model = Number(this.#statements.putModel.get(identity)?.["id"]);
      for (const { digest, vector } of vectors) {
        this.#used += 1;
        const key = Buffer.from(digest, "hex");
        const isNew = this.#statements.use.get(this.#used, key, model) === undefined;
        this.#statements.put.run(model, key, toBytes(vector), this.#used);
        if (isNew) this.#entries += 1;
      }
      this.#shrink();
    });
  }

  /** Removes what was made of these texts, by whatever model, from the bytes of the file too. */
  forget(digests: readonly string[]): void {
    this.remove(digests);
    this.#database.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  }

  /** Removes what was made of these texts, by whatever model. */
  remove(digests: readonly string[]): void {
    this.#inOneStep(() => {
      for (const digest of digests) {
        this.#entries -= Number(this.#statements.remove.run(Buffer.from(digest, "hex")).changes);
      }
    });
  }

  [Symbol.dispose](): void {
    if (this.#database.isOpen) this.#database.close();
  }

  #shrink(): void {
    const over = this.#entries - this.#maxEntries;
    if (over > 0) this.#entries -= Number(this.#statements.removeOldest.run(over).changes);
  }

  #inOneStep(work: () => void): void {
    const before = [this.#entries, this.#used] as const;
    this.#database.exec("BEGIN IMMEDIATE");
    try {
      work();
      this.#database.exec("COMMIT");
    } catch (error) {
      [this.#entries, this.#used] = before;
      if (this.#database.isTransaction) this.#database.exec("ROLLBACK");
      throw error;
    }
  }
}

function openCacheFile(path: string): DatabaseSync {
  try {
    return openOnce(path);
  } catch {
    // Everything in it can be had from the provider again.
    removeIndexFile(path);
    return openOnce(path);
  }
}

function openOnce(path: string): DatabaseSync {
  const database = new DatabaseSync(path);
  try {
    database.exec(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 2000; PRAGMA secure_delete = ON;",
    );
    const [row] = database.prepare("PRAGMA user_version").all();
    if (row?.["user_version"] === schemaVersion) {
      database.prepare("SELECT model, digest, vector, used FROM entries LIMIT 1").get();
      return database;
    }
    if (row?.["user_version"] !== 0) throw new Error("another version wrote the embedding cache");
    database.exec(`BEGIN IMMEDIATE; ${schema} COMMIT;`);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

interface Statements {
  readonly findModel: StatementSync;
  readonly putModel: StatementSync;
  readonly use: StatementSync;
  readonly put: StatementSync;
  readonly remove: StatementSync;
  readonly removeOldest: StatementSync;
}

function prepareStatements(database: DatabaseSync): Statements {
  return {
    findModel: database.prepare("SELECT id FROM models WHERE identity = ?"),
    putModel: database.prepare(
      `INSERT INTO models (identity) VALUES (?) ON CONFLICT (identity) DO UPDATE SET identity = excluded.identity
       RETURNING id`,
    ),
    use: database.prepare("UPDATE entries SET used = ? WHERE digest = ? AND model = ? RETURNING vector"),
    put: database.prepare(
      `INSERT INTO entries (model, digest, vector, used) VALUES (?, ?, ?, ?)
       ON CONFLICT (digest, model) DO UPDATE SET used = excluded.used, vector = excluded.vector`,
    ),
    remove: database.prepare("DELETE FROM entries WHERE digest = ?"),
    removeOldest: database.prepare(
      "DELETE FROM entries WHERE id IN (SELECT id FROM entries ORDER BY used LIMIT ?)",
    ),
  };
}
