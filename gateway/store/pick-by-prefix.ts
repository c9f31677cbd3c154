import { Fault } from "../../shared/fault/fault.ts";

/** So many rows are read to tell whether an id, or the beginning of one, is clear. */
export const prefixCandidates = 20;

/** What was asked for. */
export interface AskedById {
  /** The id, or its beginning. */
  readonly id: string;
  /** What such things are called: `approval`. */
  readonly what: string;
  /** What the fault calls the argument; `id` by default. */
  readonly field?: string;
  /** The command that lists them. */
  readonly listedBy: string;
}

/**
 * The one row among those whose id begins as asked. `NOT_FOUND` when there is none, `INVALID_ARGUMENT` that lists the
 * candidates when several do.
 */
export function pickByPrefix<T extends { readonly id: string }>(rows: readonly T[], asked: AskedById): T {
  const { id, what, field = "id", listedBy } = asked;
  const [row, ...more] = rows;
  if (!row) throw new Fault("NOT_FOUND", `there is no ${what} ${id.slice(0, 64)}`, { hint: listedBy });
  if (more.length === 0) return row;
  const candidates = rows.slice(0, prefixCandidates).map((candidate) => candidate.id);
  throw new Fault("INVALID_ARGUMENT", `several ${what}s begin with ${id.slice(0, 64)}`, {
    hint: `write more of it: ${candidates.join(", ")}`,
    details: { field, candidates },
  });
}
