import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { VectorStore } from "./vector-store.ts";

/** An index file that is open, with its statements made ready. */
export interface OpenIndex {
  readonly database: DatabaseSync;
  readonly vectors: VectorStore;
  readonly readMeta: StatementSync;
  readonly writeMeta: StatementSync;
  readonly putFile: StatementSync;
  readonly noteFile: StatementSync;
  readonly removeFile: StatementSync;
  readonly addChunk: StatementSync;
  readonly removeChunks: StatementSync;
  readonly digestsOf: StatementSync;
  readonly holdersOf: StatementSync;
  readonly search: StatementSync;
  readonly chunksOfVector: StatementSync;
}

const hitColumns = `
  chunks.id, files.path, files.digest AS file_digest, files.modified_ms, files.evergreen,
  chunks.first_line, chunks.last_line, chunks.text, chunks.digest, chunks.sum
`;

/** Makes the statements of an index ready. */
export function prepareStatements(database: DatabaseSync, vectors: VectorStore): OpenIndex {
  return {
    database,
    vectors,
    readMeta: database.prepare("SELECT value FROM meta WHERE key = ?"),
    writeMeta: database.prepare(
      "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    ),
    putFile: database.prepare(
      `INSERT INTO files (path, digest, size_bytes, modified_ms, chunking, evergreen, fault)
       VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (path) DO UPDATE SET digest = excluded.digest, size_bytes = excluded.size_bytes,
         modified_ms = excluded.modified_ms, chunking = excluded.chunking, evergreen = excluded.evergreen,
         fault = excluded.fault
       RETURNING id`,
    ),
    noteFile: database.prepare("UPDATE files SET modified_ms = ? WHERE path = ?"),
    removeFile: database.prepare("DELETE FROM files WHERE path = ?"),
    addChunk: database.prepare(
      `INSERT INTO chunks (file, first_line, last_line, heading, text, digest, sum) VALUES (?, ?, ?, ?, ?, ?, ?)`,
    ),
    removeChunks: database.prepare(
      "DELETE FROM chunks WHERE file = (SELECT id FROM files WHERE path = ?) RETURNING digest",
    ),
    digestsOf: database.prepare(
      "SELECT DISTINCT digest FROM chunks WHERE file = (SELECT id FROM files WHERE path = ?)",
    ),
    holdersOf: database.prepare("SELECT 1 FROM chunks WHERE digest = ? LIMIT 1"),
    search: database.prepare(
      `SELECT ${hitColumns}, found.rank
       FROM (SELECT rowid, rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?) AS found
       JOIN chunks ON chunks.id = found.rowid JOIN files ON files.id = chunks.file
       ORDER BY found.rank, files.path, chunks.first_line`,
    ),
    chunksOfVector: database.prepare(
      `SELECT ${hitColumns} FROM vectors JOIN chunks ON chunks.digest = vectors.digest
       JOIN files ON files.id = chunks.file WHERE vectors.id = ?`,
    ),
  };
}
