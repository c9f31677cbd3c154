import type { DatabaseSync, StatementSync } from "node:sqlite";
import { BestOf, compareScored, type Scored } from "./best-of.ts";
import { toEmbeddedText } from "./chunks.ts";
import type { CachedVector } from "./embedding/embedding-cache.ts";
import { toBytes, toVector } from "./embedding/vector-bytes.ts";
import { loadVectorExtension } from "./vector-extension.ts";
import { multiply, VectorMatrix } from "./vector-matrix.ts";
import { type MemoryHolder, VectorMemory } from "./vector-memory.ts";

/** Tables of vectors: one for each different passage, empty until it was embedded. */
export const vectorSchema = `
  CREATE TABLE vectors (id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, vector BLOB) STRICT;
  CREATE INDEX vectors_missing ON vectors (id) WHERE vector IS NULL;
`;

/** How the vectors of an index are looked through. */
export interface VectorStoreOptions {
  /** Bytes of vectors that are kept in memory; what is larger is read from the file for each search. */
  readonly maxMemoryBytes: number;
  /** Whether the native extension may be used for what is read from the file. */
  readonly native: boolean;
  /** That memory, where several indexes share it; of its own by default. */
  readonly memory?: VectorMemory;
}

/** Bytes of vectors that all indexes together keep in memory when nothing else is said. */
export const defaultVectorMemoryBytes = 268_435_456;

/** A passage that has no vector yet. */
export interface MissingVector {
  /** The passage's digest, hex. */
  readonly digest: string;
  /** What is to be embedded. */
  readonly text: string;
  /** The files that hold it. */
  readonly files: readonly string[];
}

/** The native search counts in 32 bits: so many more are taken from it and then judged exactly. */
const nativeSlack = 32;

/**
 * The vectors of one index, all made by one model. Three ways lead to the same answer: in memory, by the native extension,
 * or one by one from the file. Synchronous; the caller holds the transactions.
 */
export class VectorStore implements MemoryHolder {
  readonly #database: DatabaseSync;
  readonly #options: VectorStoreOptions;
  readonly #memory: VectorMemory;
  readonly #statements: Statements;
  #matrix: VectorMatrix | undefined;
  /** How many passages wait; undefined: to be counted. */
  #missing: number | undefined;
  #native: StatementSync | undefined | "untried" = "untried";

  constructor(database: DatabaseSync, options: VectorStoreOptions) {
    this.#database = database;
    this.#options = options;
    this.#memory = options.memory ?? new VectorMemory(options.maxMemoryBytes);
    this.#statements = prepareStatements(database);
  }

  /** What its vectors were made by; empty when it is to have none. */
  get identity(): string {
    return String(this.#statements.readMeta.get("embedding")?.["value"] ?? "");
  }

  /** How many numbers its vectors have; 0 while there is none. */
  get dimensions(): number {
    return Number(this.#statements.readMeta.get("dimensions")?.["value"] ?? 0);
  }

  /** How many passages wait for their vector. */
  get missingCount(): number {
    this.#missing ??= Number(this.#statements.countMissing.get()?.["n"] ?? 0);
    return this.#missing;
  }

  /** How many files hold a passage that waits. Looks at each of them. */
  countWaitingFiles(): number {
    return this.missingCount === 0 ? 0 : Number(this.#statements.countWaiting.get()?.["n"] ?? 0);
  }

  /** What was changed since the last transaction began is taken back. */
  forgetChanges(): void {
    this.#missing = undefined;
    this.dropVectors();
  }

  dropVectors(): void {
    this.#matrix = undefined;
    this.#memory.release(this);
  }

  /** How many passages have one. */
  get count(): number {
    return Number(this.#statements.countAll.get()?.["n"] ?? 0) - this.missingCount;
  }

  /** Says what makes vectors from now on: those of anything else go, and every passage waits for a new one. */
  use(identity: string): void {
    if (identity === this.identity) return;
    this.#clear();
    this.#statements.writeMeta.run("embedding", identity);
    this.#missing = undefined;
    if (identity === "") return;
    this.#database.exec("INSERT INTO vectors (digest) SELECT DISTINCT digest FROM chunks");
  }

  /** A passage is there: it waits for its vector unless it has one. */
  want(digest: Buffer): void {
    const added = Number(this.#statements.want.run(digest).changes);
    if (this.#missing !== undefined) this.#missing += added;
  }

  /** Passages are gone: their vectors go unless another passage is the same. */
  release(digests: readonly Uint8Array[]): void {
    for (const digest of digests) {
      const row = this.#statements.release.get(digest);
      if (!row) continue;
      this.#matrix?.remove(Number(row["id"]));
      if (row["waits"] === 1 && this.#missing !== undefined) this.#missing -= 1;
    }
  }

  /** Passages that wait for their vector, those that wait longest first. */
  missing(limit: number, skip: ReadonlySet<string>): readonly MissingVector[] {
    const found: MissingVector[] = [];
    for (const row of this.#statements.missing.iterate()) {
      const digest = Buffer.from(row["digest"] as Uint8Array).toString("hex");
      if (skip.has(digest)) continue;
      const heading = String(row["heading"]);
      const text = String(row["text"]);
      const files = this.#statements.filesOf.all(row["digest"] as Uint8Array).map(({ path }) => String(path));
      found.push({ digest, text: toEmbeddedText({ heading, text }), files });
      if (found.length >= limit) break;
    }
    return found;
  }

  /** Stores vectors, all of one length, of passages that still wait for one. Those of another length go. */
  put(vectors: readonly CachedVector[]): void {
    const length = vectors[0]?.vector.length;
    if (length === undefined) return;
    if (length !== this.dimensions) {
      if (this.dimensions !== 0) {
        this.forgetChanges();
        this.#database.exec("UPDATE vectors SET vector = NULL");
      }
      this.#statements.writeMeta.run("dimensions", String(length));
    }
    for (const { digest, vector } of vectors) {
      const row = this.#statements.put.get(toBytes(vector), Buffer.from(digest, "hex"));
      if (!row) continue;
      this.#matrix?.put(Number(row["id"]), vector);
      if (this.#missing !== undefined) this.#missing -= 1;
    }
  }

  /** The nearest passages by their vectors' numbers, nearest first. */
  nearest(query: Float32Array, limit: number): readonly Scored[] {
    if (query.length !== this.dimensions) return [];
    const matrix = this.#toMatrix();
    if (!matrix) return this.#nearestInFile(query, limit);
    const best = new BestOf(limit);
    matrix.scan(query, (id, score) => best.add(id, score));
    return best.take();
  }

  /** How near one passage is; undefined when it has no vector. */
  scoreOf(digest: Uint8Array, query: Float32Array): number | undefined {
    const bytes = this.#statements.vectorOf.get(digest)?.["vector"];
    return bytes instanceof Uint8Array && bytes.byteLength === query.byteLength
      ? multiply(toVector(bytes), 0, query)
      : undefined;
  }

  #clear(): void {
    this.dropVectors();
    this.#database.exec("DELETE FROM vectors; DELETE FROM meta WHERE key = 'dimensions'");
  }

  /** The vectors in memory, where they fit. */
  #toMatrix(): VectorMatrix | undefined {
    const { count, dimensions } = this;
    const bytes = this.#matrix?.sizeBytes ?? count * dimensions * 4;
    if (count === 0 || !this.#memory.use(this, bytes)) {
      this.#matrix = undefined;
      return undefined;
    }
    this.#matrix ??= this.#readMatrix(dimensions, count);
    return this.#matrix;
  }

  #readMatrix(dimensions: number, count: number): VectorMatrix {
    const matrix = new VectorMatrix(dimensions, count);
    for (const row of this.#statements.all.iterate()) {
      matrix.put(Number(row["id"]), toVector(row["vector"] as Uint8Array));
    }
    return matrix;
  }

  #nearestInFile(query: Float32Array, limit: number): readonly Scored[] {
    const native = this.#toNative();
    if (native) {
      return native
        .all(toBytes(query), limit + nativeSlack)
        .map((row) => toScored(row, query))
        .toSorted(compareScored)
        .slice(0, limit);
    }
    const best = new BestOf(limit);
    for (const row of this.#statements.all.iterate()) {
      const { id, score } = toScored(row, query);
      best.add(id, score);
    }
    return best.take();
  }

  #toNative(): StatementSync | undefined {
    if (this.#native === "untried") {
      const isThere = this.#options.native && loadVectorExtension(this.#database);
      this.#native = isThere ? this.#database.prepare(nativeSearch) : undefined;
    }
    return this.#native;
  }
}

const nativeSearch = `
  SELECT id, vector FROM vectors WHERE id IN (
    SELECT id FROM vectors WHERE vector IS NOT NULL ORDER BY vec_distance_cosine(vector, ?), id LIMIT ?
  )
`;

interface Statements {
  readonly readMeta: StatementSync;
  readonly writeMeta: StatementSync;
  readonly want: StatementSync;
  readonly release: StatementSync;
  readonly missing: StatementSync;
  readonly filesOf: StatementSync;
  readonly put: StatementSync;
  readonly countAll: StatementSync;
  readonly countMissing: StatementSync;
  readonly countWaiting: StatementSync;
  readonly vectorOf: StatementSync;
  readonly all: StatementSync;
}

function prepareStatements(database: DatabaseSync): Statements {
  return {
    readMeta: database.prepare("SELECT value FROM meta WHERE key = ?"),
    writeMeta: database.prepare(
      "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    ),
    want: database.prepare("INSERT OR IGNORE INTO vectors (digest) VALUES (?)"),
    release: database.prepare(
      `DELETE FROM vectors WHERE digest = ?1 AND NOT EXISTS (SELECT 1 FROM chunks WHERE chunks.digest = ?1)
       RETURNING id, vector IS NULL AS waits`,
    ),
    missing: database.prepare(
      `SELECT vectors.digest, chunks.heading, chunks.text FROM vectors
       JOIN chunks ON chunks.id = (SELECT min(id) FROM chunks WHERE chunks.digest = vectors.digest)
       WHERE vectors.vector IS NULL ORDER BY vectors.id`,
    ),
    filesOf: database.prepare(
      "SELECT DISTINCT files.path FROM chunks JOIN files ON files.id = chunks.file WHERE chunks.digest = ?",
    ),
    put: database.prepare("UPDATE vectors SET vector = ? WHERE digest = ? AND vector IS NULL RETURNING id"),
    countAll: database.prepare("SELECT count(*) AS n FROM vectors"),
    countMissing: database.prepare("SELECT count(*) AS n FROM vectors WHERE vector IS NULL"),
    countWaiting: database.prepare(
      `SELECT count(DISTINCT chunks.file) AS n FROM vectors JOIN chunks ON chunks.digest = vectors.digest
       WHERE vectors.vector IS NULL`,
    ),
    vectorOf: database.prepare("SELECT vector FROM vectors WHERE digest = ?"),
    all: database.prepare("SELECT id, vector FROM vectors WHERE vector IS NOT NULL"),
  };
}

function toScored(row: Record<string, unknown>, query: Float32Array): Scored {
  return { id: Number(row["id"]), score: multiply(toVector(row["vector"] as Uint8Array), 0, query) };
}
