import { Fault } from "../fault/fault.ts";

/** Entries of a page of a listing: by default, and at most. */
export const listPage = { entries: 1_000, maxEntries: 10_000 } as const;

/** How many entries a page has that was asked for; none, or too many, is `INVALID_ARGUMENT` with `details.field`. */
export function requirePageLimit(limit: number | undefined): number {
  if (limit === undefined) return listPage.entries;
  const { maxEntries } = listPage;
  if (limit >= 1 && limit <= maxEntries) return limit;
  throw new Fault("INVALID_ARGUMENT", `a page has 1 to ${maxEntries} entries, not ${limit}`, {
    details: { field: "limit", limit: maxEntries, actual: limit },
    hint: `give a limit from 1 to ${maxEntries}, or none`,
  });
}
