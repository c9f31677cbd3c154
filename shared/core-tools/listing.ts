import { visibleText } from "../log/safe-text.ts";

/** An entry of a listing, or what is there and could not be looked at. */
export interface ListedItem {
  readonly path: string;
  /** `file`, `folder`, `link` or `other`; absent for a problem alone. */
  readonly kind?: string | undefined;
  readonly sizeBytes?: number | undefined;
  readonly linkTarget?: string | undefined;
  /** Why it, or what is in it, could not be looked at. */
  readonly code?: string | undefined;
}

/** Where a listing goes on. */
export interface ListingRest {
  readonly cursor: string;
  /** Entries that are left out, or a bound that they exceed. */
  readonly left: number;
  /** Whether there are more than `left`. */
  readonly isMore: boolean;
}

/** Longest listing for a model, in bytes of UTF-8. */
export const maxListingBytes = 65_536;

/** A listing for models: one line an entry, whatever its name holds, and where it goes on. */
export function formatListing(items: readonly ListedItem[], rest: ListingRest | undefined): string {
  return [...items.map(toLine), ...(rest ? [toNote(rest)] : [])].join("\n");
}

/** What a listing is cut by. */
export interface FitOptions {
  /** Where the listing goes on when it ends with this item. */
  readonly restAfter: (item: ListedItem, left: number) => ListingRest;
  /** Entries that follow behind the items. */
  readonly beyond: number;
}

/** How many of `items`, from the first on, fit into one listing with the note on what is left out; at least one. */
export function countFitting(items: readonly ListedItem[], { restAfter, beyond }: FitOptions): number {
  let fitting = 0;
  let bytes = 0;
  for (const [index, item] of items.entries()) {
    bytes += Buffer.byteLength(toLine(item)) + (index === 0 ? 0 : 1);
    if (bytes > maxListingBytes) break;
    const left = items.length - index - 1 + beyond;
    const noteBytes = left === 0 ? 0 : 1 + Buffer.byteLength(toNote(restAfter(item, left)));
    if (bytes + noteBytes <= maxListingBytes) fitting = index + 1;
  }
  return Math.max(fitting, Math.min(1, items.length));
}

function toLine({ path: name, kind, sizeBytes, linkTarget, code }: ListedItem): string {
  const path = visibleText(name);
  const problem = code === undefined ? "" : `\t(${code})`;
  if (kind === "folder") return `${path}/${problem}`;
  if (kind === "link") return `${path}\t-> ${visibleText(linkTarget ?? "")}${problem}`;
  return `${path}${kind === "file" ? `\t${sizeBytes ?? 0}` : ""}${problem}`;
}

function toNote({ cursor, left, isMore }: ListingRest): string {
  const count = `${isMore ? "more than " : ""}${left}`;
  return `… ${count} ${left === 1 ? "entry is" : "entries are"} left out; go on with the cursor ${cursor}`;
}
