import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import {
  CompiledQuery,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
} from "kysely";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { faultFromSqlite } from "./fault-from-sqlite.ts";
import { createTurnstile } from "./turnstile.ts";

/** What the dialect takes. */
export interface SqliteDialectOptions {
  /** The open database; the dialect closes it. */
  readonly database: DatabaseSync;
  /** Where time comes from. */
  readonly clock: Clock;
}

const maxStatements = 256;
const longestWaitMs = 15_000;

/**
 * Kysely over the SQLite in Node. There is one connection: queries wait for each other, and for the transaction that is
 * open, in the order in which they came. A transaction takes the write lock at its begin, so that it never fails half-way
 * because another process wrote meanwhile.
 */
export function createSqliteDialect(options: SqliteDialectOptions): Dialect {
  return {
    createAdapter: () => new SqliteAdapter(),
    createDriver: () => createDriver(options),
    createIntrospector: (db) => new SqliteIntrospector(db),
    createQueryCompiler: () => new SqliteQueryCompiler(),
  };
}

function createDriver({ database, clock }: SqliteDialectOptions): Driver {
  const turnstile = createTurnstile({ clock, timeoutMs: longestWaitMs });
  const connection = createConnection(database);
  const run = async (text: string): Promise<void> => {
    await connection.executeQuery(CompiledQuery.raw(text));
  };
  return {
    init: async () => undefined,
    acquireConnection: async () => {
      await turnstile.enter();
      return connection;
    },
    beginTransaction: () => run("begin immediate"),
    commitTransaction: () => run("commit"),
    rollbackTransaction: () => run("rollback"),
    releaseConnection: async () => turnstile.leave(),
    destroy: async () => {
      if (database.isOpen) database.close();
    },
  };
}

function createConnection(database: DatabaseSync): DatabaseConnection {
  const statements = new Map<string, StatementSync>();
  const prepare = (text: string): StatementSync => {
    const known = statements.get(text);
    if (known) return known;
    const statement = database.prepare(text);
    if (statements.size >= maxStatements) statements.clear();
    statements.set(text, statement);
    return statement;
  };
  return {
    executeQuery: async <R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> => {
      try {
        const statement = prepare(sql);
        const values = parameters as SQLInputValue[];
        if (statement.columns().length > 0) return { rows: statement.all(...values) as R[] };
        const { changes, lastInsertRowid } = statement.run(...values);
        return { rows: [], numAffectedRows: BigInt(changes), insertId: BigInt(lastInsertRowid) };
      } catch (error) {
        throw faultFromSqlite(error);
      }
    },
    streamQuery: async function* <R>({
      sql,
      parameters,
    }: CompiledQuery): AsyncIterableIterator<QueryResult<R>> {
      // A statement of its own: a kept one would be reset by the same query while this one is being read.
      const statement = database.prepare(sql);
      try {
        for (const row of statement.iterate(...(parameters as SQLInputValue[]))) yield { rows: [row as R] };
      } catch (error) {
        throw faultFromSqlite(error);
      }
    },
  };
}
