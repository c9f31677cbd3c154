import { ProtocolError } from "@modelcontextprotocol/server";

/** JSON-RPC's word for parameters that make no sense. */
export const invalidParams = -32_602;

/** A page of a list. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor?: string;
}

/** What a list is cut into pages by. */
export interface PageOptions<T> {
  /** Names the list as it is now: a cursor of another state is stale. */
  readonly digest: string;
  readonly cursor: string | undefined;
  /** Bytes that an item takes. */
  readonly sizeOf: (item: T) => number;
}

const maxItems = 1_000;
const maxBytes = 2 * 1024 * 1024;

/** The page of `items` that `cursor` leads to; a cursor that is foreign or stale is error -32602. */
export function cutPage<T>(items: readonly T[], options: PageOptions<T>): Page<T> {
  const start = options.cursor === undefined ? 0 : readCursor(options.cursor, options.digest);
  const page: T[] = [];
  let bytes = 0;
  for (const item of items.slice(start, start + maxItems)) {
    bytes += options.sizeOf(item);
    if (page.length > 0 && bytes > maxBytes) break;
    page.push(item);
  }
  const end = start + page.length;
  return end < items.length ? { items: page, nextCursor: writeCursor(end, options.digest) } : { items: page };
}

function writeCursor(offset: number, digest: string): string {
  return Buffer.from(JSON.stringify([offset, digest])).toString("base64url");
}

function readCursor(cursor: string, digest: string): number {
  try {
    const [offset, of] = JSON.parse(Buffer.from(cursor, "base64url").toString("utf8")) as unknown[];
    if (Number.isInteger(offset) && Number(offset) > 0 && of === digest) return Number(offset);
  } catch {
    // Not one of ours.
  }
  throw new ProtocolError(
    invalidParams,
    "the cursor is not of this list, or the list has changed: begin again",
  );
}
