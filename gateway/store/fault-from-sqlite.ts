import type { FaultCode } from "../../shared/fault/codes.ts";
import { Fault } from "../../shared/fault/fault.ts";

const codeByResult: ReadonlyMap<number, readonly [FaultCode, string]> = new Map([
  [5, ["IO_ERROR", "is locked by another process"]],
  [6, ["IO_ERROR", "is locked"]],
  [8, ["IO_ERROR", "may not be written"]],
  [10, ["IO_ERROR", "could not be read or written"]],
  [11, ["INTEGRITY_FAILURE", "is damaged"]],
  [13, ["DISK_FULL", "could not be written: the disk is full"]],
  [14, ["IO_ERROR", "could not be opened"]],
  [26, ["INTEGRITY_FAILURE", "is no store, or is damaged"]],
]);

const unique: ReadonlySet<number> = new Set([1555, 2067]);

/** What to do about a store that cannot be read. */
export const restoreHint = "restore a backup with fairlead gateway restore FILE; nothing was changed";

function resultOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !("errcode" in error)) return undefined;
  return typeof error.errcode === "number" ? error.errcode : undefined;
}

/**
 * An error of SQLite about the file (unreadable, damaged, full) as a Fault. Others, such as a violated constraint, come
 * back unchanged.
 */
export function faultFromSqlite(error: unknown): unknown {
  const result = resultOf(error);
  const row = result === undefined ? undefined : codeByResult.get(result & 0xff);
  if (!row) return error;
  const [code, words] = row;
  return new Fault(code, `state.db ${words}`, {
    retryable: false,
    details: { path: "state.db", result: result ?? 0 },
    ...(code === "INTEGRITY_FAILURE" ? { hint: restoreHint } : {}),
    cause: error,
  });
}

/** Whether a write failed because a row with that key is there already, whatever engine stands behind the store. */
export function isUniqueViolation(error: unknown): boolean {
  const result = resultOf(error);
  if (result !== undefined) return unique.has(result);
  return error instanceof Error && "code" in error && error.code === "23505";
}
